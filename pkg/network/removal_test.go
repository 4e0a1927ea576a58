package network

import "testing"

func TestDeletion(t *testing.T) {
	checkPlans(t, []planTest{
		{"a Network in use takes no new pod and stays", `
			network blue 10.0.0.0/24 terminating
			owner Pod2/web 2 blue
			10.0.0.2 Bound web-0/u1 Pod2/web
			10.0.0.3 Reserved web-1 Pod2/web
			10.0.0.4 Resting x 1s
			pod web-0/u1 has=blue:10.0.0.2/24 of=Pod2/web
			pod web-1/u2 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: free 10.0.0.3 of web-1; free 10.0.0.4 of x
			web-1 (u2) waits: NetworkTerminating: Network "blue" is being deleted and takes no new pod; create it anew once it is gone, or ask for another one`},
		{"the last pod is over: seal, and the finalizer stays for now", `
			network blue 10.0.0.0/24 terminating
			10.0.0.2 Bound a/u1`,
			`update block blue-10.0.0.0: free 10.0.0.2 of a; seal; if over: a (u1)`},
		{"not while one block is not sealed", `
			network blue 10.0.0.0/23 terminating
			block 10.0.0.0/24 sealed
			10.0.1.2 Bound a/u1
			pod a/u1 has=blue:10.0.1.2/23`, ``},
		{"nor is one that this very plan seals sealed already", `
			network blue 10.0.0.0/23 terminating
			block 10.0.0.0/24 sealed
			block 10.0.1.0/24`,
			`update block blue-10.0.1.0: seal`},
		{"all are sealed: the finalizer goes, the tombstones stay", `
			network blue 10.0.0.0/23 terminating
			block 10.0.0.0/24 sealed
			block 10.0.1.0/24 sealed`,
			`remove finalizer`},
		{"no blocks at all", `
			network blue 10.0.0.0/23 terminating`,
			`remove finalizer`},
		{"afterwards the tombstones go", `
			network blue 10.0.0.0/24 terminating nofinalizer
			block 10.0.0.0/24 sealed`,
			`update block blue-10.0.0.0: let go`},
		{"also when the Network is gone", `
			network blue -
			block 10.0.0.0/24 sealed nofinalizer`,
			`delete block blue-10.0.0.0: empty and sealed`},
		{"in the foreground the blocks are deleted first: in use they stay", `
			network blue 10.0.0.0/24 terminating
			block 10.0.0.0/24 terminating
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24 terminating`, ``},
		{"in the foreground an empty one is sealed like any other", `
			network blue 10.0.0.0/24 terminating
			block 10.0.0.0/24 terminating`,
			`update block blue-10.0.0.0: seal`},
		{"and needs no deletion of ours", `
			network blue 10.0.0.0/24 terminating nofinalizer
			block 10.0.0.0/24 terminating sealed nofinalizer`, ``},
		{"the Network's finalizer was taken by hand: its blocks still protect", `
			network blue -
			10.0.0.2 Bound a/u1
			10.0.0.3 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u9 gated asks=blue`, `
			update block blue-10.0.0.0: free 10.0.0.3 of b; if over: b (u2)
			b (u9) waits: NetworkNotFound: Network "blue" does not exist in this namespace; create it`},
		{"a Network that lives gets the finalizer back", `
			network blue 10.0.0.0/24 nofinalizer`,
			`add finalizer`},
		{"an empty block of a Network that lives goes", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24`,
			`update block blue-10.0.0.0: seal and let go`},
		{"when its last address has rested, in the same write", `
			network blue 10.0.0.0/24
			10.0.0.2 Resting a 61s`,
			`update block blue-10.0.0.0: free 10.0.0.2 of a; seal and let go`},
	})
}

// A Network recreated under the same name is another.
func TestEarlierNetwork(t *testing.T) {
	checkPlans(t, []planTest{
		{"its range is skipped, whole", `
			network blue 10.0.0.0/23
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound old/u1
			pod a/u2 gated asks=blue
			pod old/u1 has=blue:10.0.0.2/23`,
			`create block blue-10.0.1.0: bind 10.0.1.0 to a (u2)`},
		{"also when it is sealed, and about to go", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 uid=n-earlier sealed
			pod a/u2 gated asks=blue`, `
			update block blue-10.0.0.0: let go
			a (u2) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr`},
		{"its entries go with their pods, and nothing is kept for their owners", `
			network blue 10.0.0.0/23
			owner Pod2/web 2 blue
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound web-0/u1 Pod2/web
			10.0.0.3 Reserved web-1 Pod2/web
			pod web-1/u2 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: free 10.0.0.2 of web-0; free 10.0.0.3 of web-1; seal and let go; if over: web-0 (u1)
			create block blue-10.0.1.0: bind 10.0.1.0 to web-1 (u2)`},
		{"a pod that it had bound but not published is bound anew", `
			network blue 10.0.0.0/23
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			pod a/u1 gated asks=blue`,
			`create block blue-10.0.1.0: bind 10.0.1.0 to a (u1)`},
		{"and what it had there is surplus once the new one is published", `
			network blue 10.0.0.0/23
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			10.0.1.0 Bound a/u1
			pod a/u1 asks=blue has=blue:10.0.1.0/23`,
			`update block blue-10.0.0.0: free 10.0.0.2 of a; seal and let go`},
		{"what its pods publish is recorded there, not here", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 has=blue:10.0.0.3/24`, ``},
	})
}

func TestBlockTouchedByHand(t *testing.T) {
	checkPlans(t, []planTest{
		{"deleted: it serves on, as long as it is in use", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 terminating
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.3 to b (u2)`},
		{"gone: what pods publish is written back, terminating ones too, before others are served", `
			network blue 10.0.0.0/24
			pod a/u1 has=blue:10.0.0.2/24 terminating
			pod b/u2 gated asks=blue
			pod c/u3 gated asks=blue=10.0.0.4
			pod d/u4 has=blue:10.0.0.4/24 of=Job/once`, `
			create block blue-10.0.0.0: bind 10.0.0.2 to a (u1); bind 10.0.0.3 to b (u2); bind 10.0.0.4 to d (u4)
			c (u3) waits: AddressInUse: the wanted address 10.0.0.4 of Network "blue" is held by pod d; wait until it is free, or name another one, or none to get any`},
		{"gone: into the block that was made since", `
			network blue 10.0.0.0/24
			10.0.0.3 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue
			pod c/u3 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to a (u1); bind 10.0.0.4 to c (u3)`},
		{"gone: also of a Network that goes, and before its finalizer does", `
			network blue 10.0.0.0/24 terminating
			pod a/u1 has=blue:10.0.0.2/24`,
			`create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"but not once the finalizer is gone: no block may be made then", `
			network blue 10.0.0.0/24 terminating nofinalizer
			pod a/u1 has=blue:10.0.0.2/24`, ``},
		{"not those of pods that are over, or gated, or of other Networks", `
			network blue 10.0.0.0/24
			pod a/u1 has=blue:10.0.0.2/24 phase=Failed
			pod b/u2 has=blue:10.0.0.3/24 gated
			pod c/u3 has=green:10.0.0.4/24
			pod d/u4 has=blue:10.9.0.4/24`, ``},
		{"over a reserved one", `
			network blue 10.0.0.0/24
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web
			pod a/u1 has=blue:10.0.0.2/24`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"but not what a pod publishes that holds another: somebody changed the annotation", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.9/24`,
			`a (u1) waits: AddressConflict: address 10.0.0.9 of Network "blue" is published by the pod, to which 10.0.0.2 is bound; recreate the pod`},
		{"nor the gateway", `
			network blue 10.0.0.0/24
			pod a/u1 has=blue:10.0.0.1/24`,
			`a (u1) waits: AddressConflict: address 10.0.0.1 of Network "blue" is the gateway; recreate the pod`},
		{"over one whose pod is over", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to a (u1); if over: b (u2)`},
		{"conflict: who is in the ledger keeps it, and the other's user is told", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`a (u1) waits: AddressConflict: address 10.0.0.2 of Network "blue" is held by pod b; recreate the pod`},
		{"conflict: told once, whichever Network told it", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24,green:10.1.0.2/24 condition=False/AddressConflict
			pod b/u2 gated asks=blue`, ``},
		{"the finalizer of a block in use is put back", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 nofinalizer
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24`,
			`update block blue-10.0.0.0: add finalizer`},
		{"unless it is being deleted: the API server would refuse", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 nofinalizer terminating
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24`, ``},
		{"entries that mean nothing are dropped", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound a/u1
			10.0.9.9 Bound b/u2 in=10.0.0.0/24
			10.0.0.300 Reserved c in=10.0.0.0/24
			::ffff:10.0.0.4 Bound b/u2 in=10.0.0.0/24
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: drop "10.0.9.9" of b, no address of the block; drop "10.0.0.300" of c, no address of the block; drop "::ffff:10.0.0.4" of b, no address of the block; bind 10.0.0.3 to b (u2)`},
		{"of two entries of one address the first bound one counts", `
			network blue 10.0.0.0/24
			10.0.0.2 Resting x 1s
			10.0.0.2 Bound a/u1
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: drop 10.0.0.2 of b, listed twice; drop 10.0.0.2 of x, listed twice; bind 10.0.0.3 to b (u2)`},
		{"entries in disorder are found all the same", `
			network blue 10.0.0.0/24
			10.0.0.9 Bound a/u1
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.9/24
			pod b/u2 has=blue:10.0.0.2/24
			pod c/u3 gated asks=blue=10.0.0.2`,
			`c (u3) waits: AddressInUse: the wanted address 10.0.0.2 of Network "blue" is held by pod b; wait until it is free, or name another one, or none to get any`},
		{"blocks that we did not write are not the ledger", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 name=mine
			10.0.0.2 Bound a/u1
			block 10.0.0.0/25
			10.0.0.3 Bound b/u2 in=10.0.0.0/25
			pod a/u1 gated asks=blue`,
			`create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
	})
}

// Two controllers with old views bound one pod in two blocks.
func TestSurplus(t *testing.T) {
	const twice = `
		network blue 10.0.0.0/23
		10.0.0.2 Bound a/u1
		10.0.1.2 Bound a/u1
		`
	checkPlans(t, []planTest{
		{"both stay until the pod has published one", twice + `pod a/u1 gated asks=blue`, ``},
		{"then the other rests; its pod lives, so nothing is to be confirmed", twice + `pod a/u1 has=blue:10.0.1.2/23`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a
			again in 1m0s`},
		{"a gated pod has chosen nothing, whatever somebody wrote into it", twice + `pod a/u1 gated asks=blue has=blue:10.0.1.2/23`, ``},
		{"nor does one that publishes what it does not hold", `
			network blue 10.0.0.0/23
			10.0.0.2 Bound a/u1
			10.0.1.2 Bound b/u2
			pod a/u1 has=blue:10.0.1.2/23 condition=False/AddressConflict
			pod b/u2 has=blue:10.0.1.2/23`, ``},
	})
}
