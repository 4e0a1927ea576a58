package network

import "testing"

// A plan that only gives addresses back may wait for more work of this kind. A plan that
// some pod waits for may not.
func TestWhichPlansMayWait(t *testing.T) {
	const blue = "network blue 10.0.0.0/29\n"
	for _, row := range []struct {
		name, state string
		want        bool
	}{
		{"nothing to do", blue + "10.0.0.2 Bound a/u1\npod a/u1 has=blue:10.0.0.2/29", false},
		{"a pod terminated", blue + "10.0.0.2 Bound a/u1", true},
		{"the pod of a replica, which keeps the address", blue + "10.0.0.2 Bound web-0/u1 Pod2/web\nowner Pod2/web 1 blue", true},
		{"the last entry of a block", "network blue 10.0.0.0/29 delay=0\n10.0.0.2 Bound a/u1", true},
		{"another pod waits", blue + "10.0.0.2 Bound a/u1\npod b/u2 gated asks=blue", false},
		{"another pod waits, and no address is free for it", "network blue 10.0.0.0/30\n10.0.0.2 Bound a/u1 \npod b/u2 gated asks=blue", false},
		{"another pod publishes an address without entry", blue + "10.0.0.2 Bound a/u1\npod b/u2 has=blue:10.0.0.3/29", false},
		{"the Network is being deleted", "network blue 10.0.0.0/29 terminating\n10.0.0.2 Bound a/u1", false},
		{"the Network has no finalizer", "network blue 10.0.0.0/29 nofinalizer\n10.0.0.2 Bound a/u1", false},
		{"the block has no finalizer", blue + "block 10.0.0.0/24 nofinalizer\n10.0.0.2 Bound a/u1\n10.0.0.3 Bound b/u2\npod b/u2 has=blue:10.0.0.3/29", false},
	} {
		s := parse(t, row.state)
		plan := Diff(s)
		if plan.MayWait {
			t.Errorf("%s: may wait, though it has the first status", row.name)
		}
		if plan.Status != nil {
			s.Network.Status = *plan.Status
		}
		if got := Diff(s).MayWait; got != row.want {
			t.Errorf("%s: %t, want %t", row.name, got, row.want)
		}
	}
}
