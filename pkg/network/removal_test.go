package network

import "testing"

func TestDeletion(t *testing.T) {
	checkPlans(t, []planTest{
		{"a Network in use takes no new pods and stays", `
			network blue 10.0.0.0/24 terminating
			owner Pod2/web 2 blue
			10.0.0.2 Bound web-0/u1 Pod2/web
			10.0.0.3 Reserved web-1 Pod2/web
			10.0.0.4 Resting x 1s
			pod web-0/u1 has=blue:10.0.0.2/24 of=Pod2/web
			pod web-1/u2 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: free 10.0.0.3 of web-1; free 10.0.0.4 of x
			web-1 (u2) waits: NetworkTerminating: Network "blue" is being deleted and takes no new pods; recreate it once it is gone, or ask for another Network`},
		{"the last pod terminated: seal, but keep the finalizer for now", `
			network blue 10.0.0.0/24 terminating
			10.0.0.2 Bound a/u1`,
			`update block blue-10.0.0.0: free 10.0.0.2 of a; seal; if terminated: a (u1)`},
		{"not while one block is not sealed", `
			network blue 10.0.0.0/23 terminating
			block 10.0.0.0/24 sealed
			10.0.1.2 Bound a/u1
			pod a/u1 has=blue:10.0.1.2/23`, ``},
		{"a block that this plan seals is not sealed yet", `
			network blue 10.0.0.0/23 terminating
			block 10.0.0.0/24 sealed
			block 10.0.1.0/24`,
			`update block blue-10.0.1.0: seal`},
		{"all are sealed: remove the finalizer, keep the tombstones", `
			network blue 10.0.0.0/23 terminating
			block 10.0.0.0/24 sealed
			block 10.0.1.0/24 sealed`,
			`remove finalizer`},
		{"no blocks at all", `
			network blue 10.0.0.0/23 terminating`,
			`remove finalizer`},
		{"then the tombstones are deleted", `
			network blue 10.0.0.0/24 terminating nofinalizer
			block 10.0.0.0/24 sealed`,
			`update block blue-10.0.0.0: remove finalizer`},
		{"also when the Network is gone", `
			network blue -
			block 10.0.0.0/24 sealed nofinalizer`,
			`delete block blue-10.0.0.0: empty and sealed`},
		{"foreground deletion deletes the blocks first: those in use stay", `
			network blue 10.0.0.0/24 terminating
			block 10.0.0.0/24 terminating
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24 terminating`, ``},
		{"foreground deletion: an empty block is sealed like any other", `
			network blue 10.0.0.0/24 terminating
			block 10.0.0.0/24 terminating`,
			`update block blue-10.0.0.0: seal`},
		{"foreground deletion: the controller need not delete the block", `
			network blue 10.0.0.0/24 terminating nofinalizer
			block 10.0.0.0/24 terminating sealed nofinalizer`, ``},
		{"a user removed the Network's finalizer: its blocks still protect", `
			network blue -
			10.0.0.2 Bound a/u1
			10.0.0.3 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u9 gated asks=blue`, `
			update block blue-10.0.0.0: free 10.0.0.3 of b; if terminated: b (u2)
			b (u9) waits: NetworkNotFound: Network "blue" does not exist in this namespace; create it`},
		{"a live Network gets the finalizer back", `
			network blue 10.0.0.0/24 nofinalizer`,
			`add finalizer`},
		{"an empty block of a live Network is deleted", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24`,
			`update block blue-10.0.0.0: seal and remove finalizer`},
		{"when its last address has rested, in the same write", `
			network blue 10.0.0.0/24
			10.0.0.2 Resting a 61s`,
			`update block blue-10.0.0.0: free 10.0.0.2 of a; seal and remove finalizer`},
	})
}

// A Network recreated under the same name is another Network.
func TestEarlierNetwork(t *testing.T) {
	checkPlans(t, []planTest{
		{"its whole range is skipped", `
			network blue 10.0.0.0/23
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound old/u1
			pod a/u2 gated asks=blue
			pod old/u1 has=blue:10.0.0.2/23`,
			`create block blue-10.0.1.0: bind 10.0.1.0 to a (u2)`},
		{"also if it is sealed and about to be deleted", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 uid=n-earlier sealed
			pod a/u2 gated asks=blue`, `
			update block blue-10.0.0.0: remove finalizer`},
		{"its entries end with their pods, and no address is kept for their owners", `
			network blue 10.0.0.0/23
			owner Pod2/web 2 blue
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound web-0/u1 Pod2/web
			10.0.0.3 Reserved web-1 Pod2/web
			pod web-1/u2 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: free 10.0.0.2 of web-0; free 10.0.0.3 of web-1; seal and remove finalizer; if terminated: web-0 (u1)
			create block blue-10.0.1.0: bind 10.0.1.0 to web-1 (u2)`},
		{"a pod that it bound but did not publish is bound again", `
			network blue 10.0.0.0/23
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			pod a/u1 gated asks=blue`,
			`create block blue-10.0.1.0: bind 10.0.1.0 to a (u1)`},
		{"the old entry is surplus once the new address is published", `
			network blue 10.0.0.0/23
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			10.0.1.0 Bound a/u1
			pod a/u1 asks=blue has=blue:10.0.1.0/23`,
			`update block blue-10.0.0.0: free 10.0.0.2 of a; seal and remove finalizer`},
		{"addresses that its pods publish are recorded there, not here", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 has=blue:10.0.0.3/24`, ``},
	})
}

func TestBlockTouchedByHand(t *testing.T) {
	checkPlans(t, []planTest{
		{"deleted: it continues to serve while it is in use", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 terminating
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.3 to b (u2)`},
		{"gone: published addresses are written back, also of terminating pods, before others are served", `
			network blue 10.0.0.0/24
			pod a/u1 has=blue:10.0.0.2/24 terminating
			pod b/u2 gated asks=blue
			pod c/u3 gated asks=blue=10.0.0.4
			pod d/u4 has=blue:10.0.0.4/24 of=Job/once`, `
			create block blue-10.0.0.0: bind 10.0.0.2 to a (u1); bind 10.0.0.3 to b (u2); bind 10.0.0.4 to d (u4)
			c (u3) waits: AddressInUse: the wanted address 10.0.0.4 of Network "blue" is held by pod d; wait until it is free, or ask for another one, or for none to get any`},
		{"gone: into the block that was created since", `
			network blue 10.0.0.0/24
			10.0.0.3 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue
			pod c/u3 gated asks=blue`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to a (u1); bind 10.0.0.4 to c (u3)`},
		{"gone: also of a terminating Network, before its finalizer is removed", `
			network blue 10.0.0.0/24 terminating
			pod a/u1 has=blue:10.0.0.2/24`,
			`create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
		{"not after the finalizer is removed: no block may be created then", `
			network blue 10.0.0.0/24 terminating nofinalizer
			pod a/u1 has=blue:10.0.0.2/24`, ``},
		{"not of pods that are terminated, gated or on other Networks", `
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
		{"not if the pod holds another address: a user changed the annotation", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.9/24`,
			`a (u1) waits: AddressConflict: address 10.0.0.9 of Network "blue" is published by the pod, but the pod is bound to 10.0.0.2; recreate the pod`},
		{"not the gateway", `
			network blue 10.0.0.0/24
			pod a/u1 has=blue:10.0.0.1/24`,
			`a (u1) waits: AddressConflict: address 10.0.0.1 of Network "blue" is the gateway; recreate the pod`},
		{"over an entry whose pod terminated", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to a (u1); if terminated: b (u2)`},
		{"conflict: the pod in the entry keeps it, and the other pod gets a condition", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`a (u1) waits: AddressConflict: address 10.0.0.2 of Network "blue" is held by pod b; recreate the pod`},
		{"conflict: reported once, by any Network", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24,green:10.1.0.2/24 condition=False/AddressConflict
			pod b/u2 gated asks=blue`, ``},
		{"the finalizer of a block in use is restored", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 nofinalizer
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24`,
			`update block blue-10.0.0.0: add finalizer`},
		{"unless it is being deleted: the API server would refuse it", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 nofinalizer terminating
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/24`, ``},
		{"invalid entries are dropped", `
			network blue 10.0.0.0/24
			10.0.0.2 Bound a/u1
			10.0.9.9 Bound b/u2 in=10.0.0.0/24
			10.0.0.300 Reserved c in=10.0.0.0/24
			::ffff:10.0.0.4 Bound b/u2 in=10.0.0.0/24
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: drop "10.0.9.9" of b, not in the CIDR of its AddressBlock; drop "10.0.0.300" of c, not in the CIDR of its AddressBlock; drop "::ffff:10.0.0.4" of b, not in the CIDR of its AddressBlock; bind 10.0.0.3 to b (u2)`},
		{"if an address has two entries, the first bound one counts", `
			network blue 10.0.0.0/24
			10.0.0.2 Resting x 1s
			10.0.0.2 Bound a/u1
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.2/24
			pod b/u2 gated asks=blue`,
			`update block blue-10.0.0.0: drop 10.0.0.2 of b, listed twice; drop 10.0.0.2 of x, listed twice; bind 10.0.0.3 to b (u2)`},
		{"unordered entries are found too", `
			network blue 10.0.0.0/24
			10.0.0.9 Bound a/u1
			10.0.0.2 Bound b/u2
			pod a/u1 has=blue:10.0.0.9/24
			pod b/u2 has=blue:10.0.0.2/24
			pod c/u3 gated asks=blue=10.0.0.2`,
			`c (u3) waits: AddressInUse: the wanted address 10.0.0.2 of Network "blue" is held by pod b; wait until it is free, or ask for another one, or for none to get any`},
		{"blocks that we did not write do not count", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 name=mine
			10.0.0.2 Bound a/u1
			block 10.0.0.0/25
			10.0.0.3 Bound b/u2 in=10.0.0.0/25
			pod a/u1 gated asks=blue`,
			`create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)`},
	})
}

// Two controllers with old views bound one pod in two AddressBlocks.
func TestSurplus(t *testing.T) {
	const twice = `
		network blue 10.0.0.0/23
		10.0.0.2 Bound a/u1
		10.0.1.2 Bound a/u1
		`
	checkPlans(t, []planTest{
		{"both stay until the pod has published one", twice + `pod a/u1 gated asks=blue`, ``},
		{"then the other one rests; its pod lives, so no confirmation is needed", twice + `pod a/u1 has=blue:10.0.1.2/23`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of a
			again in 1m0s`},
		{"the annotation of a gated pod does not count", twice + `pod a/u1 gated asks=blue has=blue:10.0.1.2/23`, ``},
		{"nor does an address that the pod does not hold", `
			network blue 10.0.0.0/23
			10.0.0.2 Bound a/u1
			10.0.1.2 Bound b/u2
			pod a/u1 has=blue:10.0.1.2/23 condition=False/AddressConflict
			pod b/u2 has=blue:10.0.1.2/23`, ``},
	})
}
