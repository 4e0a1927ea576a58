package network

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestStatus(t *testing.T) {
	const serving = " Ready=True/Serving(hands out addresses) AddressesAvailable=True/AddressesAvailable(no pod waits for a free address)"
	for _, test := range []planTest{
		{"the status after the writes of the plan", `
			network blue 10.0.0.0/28 exclude=10.0.0.3
			owner Pod2/web 9 blue
			10.0.0.2 Bound a/u1
			10.0.0.4 Resting b 1s
			10.0.0.5 Reserved web-1 Pod2/web
			10.0.0.6 Bound web-2/u3 Pod2/web
			10.0.0.7 Resting c 61s
			pod a/u1 has=blue:10.0.0.2/28
			pod d/u4 gated asks=blue`,
			`status capacity 12 bound 2 reserved 2 resting 1 available 7 gateway "10.0.0.1"` + serving},
		{"addresses in use and excluded do not reduce the available ones", `
			network blue 10.0.0.0/28 exclude=10.0.0.8/29
			10.0.0.9 Bound a/u1
			pod a/u1 has=blue:10.0.0.9/28`,
			`status capacity 6 bound 1 reserved 0 resting 0 available 6 gateway "10.0.0.1"` + serving},
		{"after a peak, addresses of scaled-down replicas are available once they have rested", `
			network blue 10.0.0.0/28
			owner Pod2/web 1 blue
			10.0.0.2 Bound web-0/u1 Pod2/web
			10.0.0.3 Reserved web-1 Pod2/web 61s
			10.0.0.4 Reserved web-2 Pod2/web 60s
			10.0.0.5 Reserved web-3 Pod2/web 59s
			10.0.0.6 Reserved db-0 StatefulSet/db 61s
			owner StatefulSet/db 1 blue
			pod web-0/u1 has=blue:10.0.0.2/28 of=Pod2/web`,
			`status capacity 13 bound 1 reserved 4 resting 0 available 10 gateway "10.0.0.1"` + serving},
		{"but not if they are excluded or on request", `
			network blue 10.0.0.0/28 exclude=10.0.0.3 request=10.0.0.4
			owner Pod2/web 1 blue
			10.0.0.3 Reserved web-1 Pod2/web 61s
			10.0.0.4 Reserved web-2 Pod2/web 61s`,
			`status capacity 12 bound 0 reserved 2 resting 0 available 11 gateway "10.0.0.1"` + serving},
		{"the counts of a /64 are limited", `network blue fd00::/64`,
			`status capacity 2147483647 bound 0 reserved 0 resting 0 available 2147483647 gateway "fd00::1"` + serving},
		{"an earlier Network's entries are not counted, and its addresses are not available", `
			network blue 10.0.0.0/28
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/28`,
			`status capacity 13 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.1"` + serving},
		{"a spec that cannot be served, with one event", `
			network blue 10.0.0.0/28 exclude=10.0.0.9-10.0.0.3
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/28`, `
			status capacity 0 bound 1 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=False/InvalidSpec(spec.exclude: address range "10.0.0.9-10.0.0.3" is reversed: write "10.0.0.3-10.0.0.9") AddressesAvailable=Unknown/InvalidSpec(no new pod gets an address; see condition Ready)
			event Warning InvalidSpec: spec.exclude: address range "10.0.0.9-10.0.0.3" is reversed: write "10.0.0.3-10.0.0.9"`},
		{"the whole CIDR is excluded, with one event; pods keep their addresses", `
			network blue 10.0.0.0/28 exclude=10.0.0.0/24
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/28`, `
			status capacity 0 bound 1 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=False/NoAddresses(spec.exclude leaves no address of 10.0.0.0/28 to hand out; pods keep the addresses that they hold) AddressesAvailable=Unknown/NoAddresses(no new pod gets an address; see condition Ready)
			event Warning NoAddresses: spec.exclude leaves no address of 10.0.0.0/28 to hand out; pods keep the addresses that they hold`},
		{"the gateway is the only address", `network blue 10.0.0.9/32 gateway=10.0.0.9`, `
			status capacity 0 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.9" Ready=False/NoAddresses(the gateway is the only address of 10.0.0.9/32; pods keep the addresses that they hold) AddressesAvailable=Unknown/NoAddresses(no new pod gets an address; see condition Ready)
			event Warning NoAddresses: the gateway is the only address of 10.0.0.9/32; pods keep the addresses that they hold`},
		{"ranges outside the CIDR", `network blue 10.0.0.0/28 exclude=10.0.0.2,10.0.1.0/24,10.0.0.14-10.0.0.20,fd00::1 request=10.0.0.3,10.0.0.16`,
			`status capacity 11 bound 0 reserved 0 resting 0 available 10 gateway "10.0.0.1" Ready=True/Serving(hands out addresses; these ranges of spec.exclude and spec.onRequest are outside 10.0.0.0/28 and have no effect: 10.0.1.0/24, fd00::1, 10.0.0.16) AddressesAvailable=True/AddressesAvailable(no pod waits for a free address)`},
		{"being deleted, in use, while a pod waits", `
			network blue 10.0.0.0/28 terminating
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/28
			pod b/u2 gated asks=blue condition=False/NetworkTerminating`,
			`
			status capacity 13 bound 1 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=False/InUse(being deleted; waiting for the pods that hold its addresses: a) AddressesAvailable=Unknown/InUse(no new pod gets an address; see condition Ready)
			event Warning InUse: being deleted; waiting for the pods that hold its addresses: a`},
		{"being deleted, no longer in use", `
			network blue 10.0.0.0/28 terminating
			block 10.0.0.0/24 sealed`,
			`status capacity 13 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=False/Terminating(being deleted) AddressesAvailable=Unknown/Terminating(no new pod gets an address; see condition Ready)`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := kept(Diff(parse(t, test.in)).String(), "create ", "update ", "remove ", "again ", "b (u2) waits")
			if want := unindent(test.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestStatusIsWrittenOnce(t *testing.T) {
	s := parse(t, "network blue 10.0.0.0/28")
	s.Network.Status = *Diff(s).Status
	s.Now = s.Now.Add(time.Hour)
	if plan := Diff(s); !plan.Empty() {
		t.Errorf("written again:\n%s", plan)
	}
	s.Network.Generation = 2
	plan := Diff(s)
	if plan.Status == nil || plan.Status.ObservedGeneration != 2 {
		t.Fatalf("the new generation is not observed:\n%s", plan)
	}
	if ready := meta.FindStatusCondition(plan.Status.Conditions, v1.ConditionReady); !ready.LastTransitionTime.Time.Equal(now) {
		t.Errorf("Ready did not change, but its time did: %s", ready.LastTransitionTime)
	}
}

// A pod gets an event when its reason changes. If many pods wait for one reason, only the
// first get an event.
func TestEventsOnWaitingPods(t *testing.T) {
	const blue = "network blue 10.0.0.0/30\n10.0.0.2 Bound x/u9\npod x/u9 has=blue:10.0.0.2/30\n"
	crowd := func(from, to int, rest string) (pods string) {
		for i := from; i <= to; i++ {
			pods += fmt.Sprintf("pod p%02d/u%d %s\n", i, i, rest)
		}
		return pods
	}
	for _, test := range []struct{ name, in, want string }{
		{"each reason counts separately", "network blue 10.0.0.0/30\n10.0.0.2 Bound x/u9\npod x/u9 has=blue:10.0.0.1/30\n" + `
			pod a/u1 gated asks=blue=10.0.0.2
			pod b/u2 gated asks=blue=10.0.0.9
			pod c/u3 gated asks=blue`, `
			event on x (u9): AddressConflict
			event on a (u1): AddressInUse
			event on b (u2): AddressRefused
			event on c (u3): NetworkExhausted`},
		{"same reason as before, another message", blue + `pod a/u1 gated asks=blue condition=False/NetworkExhausted`, ``},
		{"another reason before", blue + `pod a/u1 gated asks=blue condition=False/NetworkNotFound`,
			`event on a (u1): NetworkExhausted`},
		{"ten, the oldest", "network blue -\n" + crowd(1, 8, "gated asks=blue age=1m") + crowd(9, 12, "gated asks=blue age=2m"), `
			event on p09 (u9): NetworkNotFound
			event on p10 (u10): NetworkNotFound
			event on p11 (u11): NetworkNotFound
			event on p12 (u12): NetworkNotFound
			event on p01 (u1): NetworkNotFound
			event on p02 (u2): NetworkNotFound
			event on p03 (u3): NetworkNotFound
			event on p04 (u4): NetworkNotFound
			event on p05 (u5): NetworkNotFound
			event on p06 (u6): NetworkNotFound`},
		{"none for later pods", "network blue -\n" + crowd(1, 10, "gated asks=blue condition=False/NetworkNotFound") + crowd(11, 30, "gated asks=blue"), ``},
		{"but after some were served", "network blue -\n" + crowd(1, 9, "gated asks=blue condition=False/NetworkNotFound") + crowd(11, 30, "gated asks=blue"),
			`event on p11 (u11): NetworkNotFound`},
		{"terminated pods do not count", "network blue -\n" + crowd(1, 10, "gated asks=blue condition=False/NetworkNotFound phase=Failed") + crowd(11, 11, "gated asks=blue"),
			`event on p11 (u11): NetworkNotFound`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got strings.Builder
			for line := range strings.Lines(Diff(parse(t, test.in)).String()) {
				if strings.HasPrefix(line, "event on ") {
					got.WriteString(line)
				}
			}
			if got, want := strings.TrimSuffix(got.String(), "\n"), unindent(test.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
