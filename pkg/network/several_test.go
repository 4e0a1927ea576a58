package network

import "testing"

// A pod on several Networks gets all of its addresses or none.
func TestSeveralNetworks(t *testing.T) {
	const exhausted = `
		10.1.0.2 Bound x/u9
		pod x/u9 has=green:10.1.0.2/30
		`
	checkPlans(t, []planTest{
		{"the first in name order binds", `
			network blue 10.0.0.0/29
			pod a/u1 gated asks=green,blue
			network green 10.1.0.0/30`,
			`create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"the second waits for the first, silently", `
			network green 10.1.0.0/30
			pod a/u1 gated asks=green,blue
			network blue 10.0.0.0/29`, ``},
		{"the second binds after the first", `
			network green 10.1.0.0/30
			pod a/u1 gated asks=green,blue
			network blue 10.0.0.0/29
			10.0.0.2 Bound a/u1`,
			`create block green-10.1.0.0: bind 10.1.0.2 to a (u1)`},
		{"the second's last address is promised to one pod: the first binds only this pod", `
			network blue 10.0.0.0/29
			pod a/u1 gated asks=green,blue
			pod b/u2 gated asks=green,blue
			network green 10.1.0.0/30`,
			`create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"the second gives a promised address to no other pod", `
			network green 10.1.0.0/30
			pod a/u1 gated asks=green,blue
			pod b/u2 gated asks=green
			network blue 10.0.0.0/29`,
			`b (u2) waits: NetworkExhausted: Network "green" has no free address; grow its spec.cidr`},
		{"the address for a pod that already holds the first is promised too", `
			network blue 10.0.0.0/29
			10.0.0.2 Bound a/u1
			pod a/u1 gated asks=green,blue
			pod b/u2 gated asks=green,blue
			network green 10.1.0.0/30`, ``},
		{"a pod that already holds an address comes first", `
			network green 10.1.0.0/30
			pod a/u1 gated asks=green age=2h
			pod b/u2 gated asks=green,blue age=1s
			network blue 10.0.0.0/29
			10.0.0.2 Bound b/u2`, `
			create block green-10.1.0.0: bind 10.1.0.2 to b (u2)
			a (u1) waits: NetworkExhausted: Network "green" has no free address; grow its spec.cidr, or delete pods that hold one`},
		{"the first binds nothing while the second is exhausted; the second reports it", `
			network blue 10.0.0.0/29
			pod a/u1 gated asks=green,blue
			network green 10.1.0.0/30` + exhausted, ``},
		{"the second reports it", `
			network green 10.1.0.0/30` + exhausted + `
			pod a/u1 gated asks=green,blue
			network blue 10.0.0.0/29`,
			`a (u1) waits: NetworkExhausted: Network "green" has no free address; grow its spec.cidr, or delete pods that hold one`},
		{"neither can serve: the first reports it", `
			network blue 10.0.0.0/29 terminating
			block 10.0.0.0/24 sealed
			pod a/u1 gated asks=green,blue
			network green -`, `
			remove finalizer
			a (u1) waits: NetworkTerminating: Network "blue" is being deleted and takes no new pods; recreate it once it is gone, or ask for another Network`},
		{"neither can serve: the second is silent", `
			network green -
			pod a/u1 gated asks=green,blue
			network blue -`, ``},
		{"while the second waits for time to pass, so does the first: nothing else would wake it", `
			network blue 10.0.0.0/29
			owner Pod2/web 0 green
			pod a/u1 gated asks=green=10.1.0.2,blue
			network green 10.1.0.0/29
			10.1.0.2 Reserved web-0 Pod2/web 20s`,
			`again in 40s`},
		{"the replica's own address on each", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue,green
			10.0.0.5 Reserved web-0 Pod2/web
			pod web-0/u2 gated asks=green,blue of=Pod2/web
			network green 10.1.0.0/30
			10.1.0.2 Bound web-0/u1 Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.5 to web-0 (u2)`},
		{"an address of an earlier Network with this name does not count", `
			network green 10.1.0.0/23
			pod a/u1 gated asks=green,blue
			network blue 10.0.0.0/23
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1`, ``},
	})
}

func TestExhaustion(t *testing.T) {
	const full = `
		network blue 10.0.0.0/30
		10.0.0.2 Bound x/u9
		pod x/u9 has=blue:10.0.0.2/30
		`
	for _, test := range []planTest{
		{"the others are served; each waiting pod gets a condition, and one event lists the oldest first", `
			network blue 10.0.0.0/29
			pod a/u1 gated asks=blue age=8m
			pod b/u2 gated asks=blue age=1m
			pod c/u3 gated asks=blue age=7m
			pod d/u4 gated asks=blue age=6m
			pod e/u5 gated asks=blue age=5m
			pod f/u6 gated asks=blue age=4m
			pod g/u7 gated asks=blue age=2m`, `
			create block blue-10.0.0.0: bind 10.0.0.2 to a (u1); bind 10.0.0.3 to c (u3); bind 10.0.0.4 to d (u4); bind 10.0.0.5 to e (u5); bind 10.0.0.6 to f (u6)
			g (u7) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on g (u7): NetworkExhausted
			b (u2) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on b (u2): NetworkExhausted
			status capacity 5 bound 5 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=True/Serving(hands out addresses) AddressesAvailable=False/NetworkExhausted(no address is free for: g, b; grow spec.cidr, or delete pods that hold one)
			event Warning NetworkExhausted: no address is free for: g, b; grow spec.cidr, or delete pods that hold one`},
		{"the message counts six and more", full + `
			pod a/u1 gated asks=blue condition=True/x
			pod b/u2 gated asks=blue condition=True/x
			pod c/u3 gated asks=blue condition=True/x
			pod d/u4 gated asks=blue condition=True/x
			pod e/u5 gated asks=blue condition=True/x
			pod f/u6 gated asks=blue condition=True/x`, `
			a (u1) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on a (u1): NetworkExhausted
			b (u2) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on b (u2): NetworkExhausted
			c (u3) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on c (u3): NetworkExhausted
			d (u4) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on d (u4): NetworkExhausted
			e (u5) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on e (u5): NetworkExhausted
			f (u6) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one
			event on f (u6): NetworkExhausted
			status capacity 1 bound 1 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=True/Serving(hands out addresses) AddressesAvailable=False/NetworkExhausted(no address is free for: a, b, c, d, e and 1 more; grow spec.cidr, or delete pods that hold one)
			event Warning NetworkExhausted: no address is free for: a, b, c, d, e and 1 more; grow spec.cidr, or delete pods that hold one`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, want := strip(Diff(parse(t, test.in))), unindent(test.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	t.Run("reported once; when an address is free, the pod is served and the condition cleared", func(t *testing.T) {
		s := parse(t, full+"pod a/u1 gated asks=blue")
		plan := Diff(s)
		s.Network.Status = *plan.Status
		s.Pods[0].Status.Conditions = append(s.Pods[0].Status.Conditions, plan.Waits[0].Condition)
		if again := Diff(s); !again.Empty() || len(again.Events) > 0 {
			t.Errorf("reported twice:\n%s", again)
		}
		s.Blocks[0].Spec.Entries = nil
		s.Pods = s.Pods[:1]
		const want = `update block blue-10.0.0.0: bind 10.0.0.2 to a (u1)
status capacity 1 bound 1 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=True/Serving(hands out addresses) AddressesAvailable=True/AddressesAvailable(no pod waits for a free address)`
		if got := strip(Diff(s)); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func strip(p Plan) string { return kept(p.String()) }
