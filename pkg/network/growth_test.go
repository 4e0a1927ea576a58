package network

import (
	"testing"
)

// The plan for a Network whose CIDR grew, with its status.
func TestGrowth(t *testing.T) {
	for _, test := range []planTest{
		{"the old broadcast address is skipped", `
			network blue 10.0.0.0/29 cni cidrs=10.0.0.0/30
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/30
			pod b/u2 gated asks=blue`, `
			update block blue-10.0.0.0: bind 10.0.0.4 to b (u2)
			status capacity 4 bound 2 reserved 0 resting 0 available 2 gateway "10.0.0.1" cidrs 10.0.0.0/30,10.0.0.0/29` + servingText + ` Grown=False/PodsOutdated(these pods run with an earlier, smaller CIDR and may not reach all of 10.0.0.0/29; recreate them: a)
			event Warning PodsOutdated: these pods run with an earlier, smaller CIDR and may not reach all of 10.0.0.0/29; recreate them: a`},
		{"and the old network address", `
			network blue 10.0.0.0/29 gateway=10.0.0.6 exclude=10.0.0.1-10.0.0.3 cidrs=10.0.0.4/30,10.0.0.0/29
			pod b/u2 gated asks=blue`, `
			create block blue-10.0.0.0: bind 10.0.0.5 to b (u2)
			status capacity 1 bound 1 reserved 0 resting 0 available 0 gateway "10.0.0.6" cidrs 10.0.0.4/30,10.0.0.0/29` + servingText},
		{"a pod that asks for it is refused", `
			network blue 10.0.0.0/29 cidrs=10.0.0.0/30,10.0.0.0/29
			pod b/u2 gated asks=blue=10.0.0.3`, `
			b (u2) waits: AddressRefused: the wanted address 10.0.0.3 was the broadcast address in 10.0.0.0/30, a former CIDR of Network "blue"; ask for another one, or for none to get any
			event on b (u2): AddressRefused
			status capacity 4 bound 0 reserved 0 resting 0 available 4 gateway "10.0.0.1" cidrs 10.0.0.0/30,10.0.0.0/29` + servingText},
		{"a pod that holds it keeps it", `
			network blue 10.0.0.0/29 cidrs=10.0.0.0/30,10.0.0.0/29
			10.0.0.3 Bound a/u1
			pod a/u1 has=blue:10.0.0.3/29`,
			`status capacity 4 bound 1 reserved 0 resting 0 available 4 gateway "10.0.0.1" cidrs 10.0.0.0/30,10.0.0.0/29` + servingText},
		{"nothing is bound while the gateway could be corrected", `
			network blue 10.0.0.0/29 gateway=10.0.0.6 was= cidrs=
			pod b/u2 gated asks=blue`,
			`status capacity 0 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.6"`},
		{"the record begins with the CIDRs of live pods", `
			network blue 10.0.0.0/28 was=10.0.0.1 cidrs=
			10.0.0.2 Bound a/u1
			10.0.0.4 Bound b/u2
			10.0.0.9 Bound c/u3
			pod a/u1 has=blue:10.0.0.2/30
			pod b/u2 has=blue:10.0.0.4/29
			pod c/u3 has=blue:10.0.0.9/28
			pod d/u4 has=blue:10.0.0.13/30 phase=Failed
			pod e/u5 gated asks=blue`,
			`status capacity 0 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.1" cidrs 10.0.0.0/30,10.0.0.0/29,10.0.0.0/28`},
		{"with a record that is larger than the CIDR no pod is served", `
			network blue 10.0.0.0/29 cidrs=10.0.0.0/28
			pod b/u2 gated asks=blue condition=False/NetworkNotReady`, `
			b (u2) waits: NetworkNotReady: Network "blue" cannot serve: spec.cidr: 10.0.0.0/29 does not contain 10.0.0.0/28, whose addresses were handed out
			status capacity 0 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=False/InvalidSpec(spec.cidr: 10.0.0.0/29 does not contain 10.0.0.0/28, whose addresses were handed out) AddressesAvailable=Unknown/InvalidSpec(no new pod gets an address; see condition Ready)
			event Warning InvalidSpec: spec.cidr: 10.0.0.0/29 does not contain 10.0.0.0/28, whose addresses were handed out`},
	} {
		t.Run(test.name, func(t *testing.T) { checkWhole(t, test) })
	}
}

const servingText = " Ready=True/Serving(hands out addresses) AddressesAvailable=True/AddressesAvailable(no pod waits for a free address)"

// checkWhole compares the whole plan.
func checkWhole(t *testing.T, test planTest) {
	t.Helper()
	s := parse(t, test.in)
	plan := Diff(s)
	if got, want := kept(plan.String()), unindent(test.want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	doneIfEmpty(t, s, plan)
}

func TestGrown(t *testing.T) {
	const old = `
		10.0.0.2 Bound a/u1
		pod a/u1 has=blue:10.0.0.2/30
		`
	for _, test := range []struct {
		name, in string
		was      bool // the condition exists
		want     string
	}{
		{"never grew", "network blue 10.0.0.0/30 cni" + old, false, ""},
		{"an Overlay", "network blue 10.0.0.0/29 cidrs=10.0.0.0/30,10.0.0.0/29" + old, false, ""},
		{"of a CNI plugin", "network blue 10.0.0.0/29 cni cidrs=10.0.0.0/30,10.0.0.0/29" + old, false, "False a"},
		{"the last old pod terminated", "network blue 10.0.0.0/29 cni cidrs=10.0.0.0/30,10.0.0.0/29" + old[:len(old)-3] + " phase=Failed", true, "True"},
		{"the last old pod was replaced", "network blue 10.0.0.0/29 cni cidrs=10.0.0.0/30,10.0.0.0/29\npod a/u1 has=blue:10.0.0.2/29", true, "True"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.in)
			if test.was {
				v, _ := newView(parse(t, "network blue 10.0.0.0/29 cni cidrs=10.0.0.0/30,10.0.0.0/29"+old))
				was, _ := v.status(nil)
				s.Network.Status = *was
			}
			v, _ := newView(s)
			got := ""
			if c, ever := v.grown(); ever {
				got = string(c.Status)
				if pods := v.outdated(); len(pods) > 0 {
					got += " " + names(pods)
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A pod is published with a recorded CIDR, not with the spec of a view that is not recorded
// yet.
func TestPublishedCIDR(t *testing.T) {
	for _, test := range []struct{ name, network, want string }{
		{"the last recorded one", "10.0.0.0/28 cidrs=10.0.0.0/30,10.0.0.0/29,10.0.0.0/28", "10.0.0.5/28"},
		{"the spec is not recorded", "10.0.0.0/28 cidrs=10.0.0.0/30,10.0.0.0/29", "10.0.0.5/29"},
		{"no recorded CIDR has the address: an old view", "10.0.0.0/28 cidrs=10.0.0.0/30", ""},
		{"nothing is recorded", "10.0.0.0/28 cidrs=", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, "network blue "+test.network+`
				10.0.0.5 Bound a/u1
				pod a/u1 gated asks=blue`)
			plan := Publish(PodState{Now: now, Pod: s.Pods[0], Networks: []Neighbour{{s.Name, s.Network, s.Blocks}}})
			if test.want == "" {
				if !plan.Empty() || plan.Stale == "" {
					t.Errorf("got %s, stale %q", plan, plan.Stale)
				}
				return
			}
			want := `publish {"blue":{"address":"` + test.want + `","gateway":"10.0.0.1","mac":"0a:58:0a:00:00:05"}}` + "\n"
			if plan.String() != want {
				t.Errorf("got %s, want %s", plan, want)
			}
		})
	}
}

func TestOnRequest(t *testing.T) {
	checkPlans(t, []planTest{
		{"is not for a pod that asks for any", `
			network blue 10.0.0.0/29 request=10.0.0.2-10.0.0.3
			pod a/u1 gated asks=blue`, `create block blue-10.0.0.0: bind 10.0.0.4 to a (u1)`},
		{"is for a pod that asks for it", `
			network blue 10.0.0.0/29 request=10.0.0.2-10.0.0.3
			pod a/u1 gated asks=blue=10.0.0.3`, `create block blue-10.0.0.0: bind 10.0.0.3 to a (u1)`},
		{"is not for such a pod even if nothing else is free", `
			network blue 10.0.0.0/30 request=10.0.0.2
			pod a/u1 gated asks=blue condition=False/NetworkExhausted`,
			`a (u1) waits: NetworkExhausted: Network "blue" has no free address. 1 address is only for a pod that asks for it (spec.onRequest). Grow its spec.cidr`},
		{"stays reserved for its replica", `
			network blue 10.0.0.0/29 request=10.0.0.2
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web
			pod web-0/u1 gated asks=blue of=Pod2/web`, `update block blue-10.0.0.0: bind 10.0.0.2 to web-0 (u1)`},
		{"rested, serves a pod that asks for it", `
			network blue 10.0.0.0/29 request=10.0.0.2
			10.0.0.2 Resting a
			pod a/u1 gated asks=blue=10.0.0.2`, `update block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"rested, does not serve a pod that asks for any", `
			network blue 10.0.0.0/29 request=10.0.0.2
			10.0.0.2 Resting a
			pod a/u1 gated asks=blue`, `
			update block blue-10.0.0.0: bind 10.0.0.3 to a (u1)
			again in 1m0s`},
		{"is not reassigned if no other is free", `
			network blue 10.0.0.0/30 request=10.0.0.2
			owner Pod2/web 0 blue
			10.0.0.2 Reserved web-0 Pod2/web 2m
			pod a/u1 gated asks=blue condition=False/NetworkExhausted`,
			`a (u1) waits: NetworkExhausted: Network "blue" has no free address. 1 address is only for a pod that asks for it (spec.onRequest). Grow its spec.cidr`},
		{"is reassigned to a pod that asks for it", `
			network blue 10.0.0.0/30 request=10.0.0.2
			owner Pod2/web 0 blue
			10.0.0.2 Reserved web-0 Pod2/web 2m
			pod a/u1 gated asks=blue=10.0.0.2`, `update block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
	})
}

// Addresses on request count in the capacity, but are not available to pods that ask for
// any.
func TestOnRequestIsCounted(t *testing.T) {
	checkWhole(t, planTest{"", `
		network blue 10.0.0.0/29 request=10.0.0.2-10.0.0.3
		10.0.0.2 Bound a/u1
		10.0.0.4 Bound b/u2
		pod a/u1 has=blue:10.0.0.2/29
		pod b/u2 has=blue:10.0.0.4/29`,
		`status capacity 5 bound 2 reserved 0 resting 0 available 2 gateway "10.0.0.1"` + servingText})
}

// If the clock of a leader was wrong, an entry may begin in the future. It then begins now.
func TestSinceTheFuture(t *testing.T) {
	checkPlans(t, []planTest{
		{"rests no longer than others", `
			network blue 10.0.0.0/29
			10.0.0.2 Resting a -24h`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a
			again in 1m0s`},
		{"is reserved from now on", `
			network blue 10.0.0.0/29
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web -24h`, `update block blue-10.0.0.0: reserve 10.0.0.2 for web-0`},
		{"is held: the time does not matter", `
			network blue 10.0.0.0/29
			10.0.0.2 Bound a/u1 -24h
			pod a/u1 has=blue:10.0.0.2/29`, ``},
	})
}

func TestGatewayThatIsNoHost(t *testing.T) {
	const refused = "; write an address that a host in "
	for _, test := range []struct{ network, ready, gateway string }{
		{"10.0.0.0/29 gateway=10.0.0.0", "spec.gateway: 10.0.0.0 is the network address" + refused + "10.0.0.0/29 can have", ""},
		{"10.0.0.0/29 gateway=10.0.0.7", "spec.gateway: 10.0.0.7 is the broadcast address" + refused + "10.0.0.0/29 can have", ""},
		{"fd00::/64 gateway=fd00::", "spec.gateway: fd00:: is the subnet-router anycast address" + refused + "fd00::/64 can have", ""},
		{"10.0.0.0/29 gateway=10.0.0.6", "hands out addresses", "10.0.0.6"},
		{"10.0.0.0/31 gateway=10.0.0.0", "hands out addresses", "10.0.0.0"},
		{"10.0.0.0/29 gateway=10.0.0.7 was=10.0.0.7", "hands out addresses", "10.0.0.7"}, // older than this check
	} {
		t.Run(test.network, func(t *testing.T) {
			v, _ := newView(parse(t, "network blue "+test.network+" cidrs="))
			status, _ := v.status(nil)
			if got := status.Conditions[0].Message; got != test.ready || status.Gateway != test.gateway {
				t.Errorf("got %s, gateway %q", got, status.Gateway)
			}
		})
	}
}

// A refused gateway was never in force, so it is not recorded and can be corrected.
func TestRefusedGatewayIsNotOnRecord(t *testing.T) {
	s := parse(t, "network blue 10.0.0.0/29 gateway=10.0.0.7 cidrs=\npod a/u1 gated asks=blue")
	if status := Diff(s).Status; len(status.CIDRs) > 0 {
		t.Errorf("recorded: %v", status.CIDRs)
	}
}
