// Package network decides about the addresses of a Network.
//
// The package is pure: Diff turns a State into a Plan, and Publish returns the
// annotations of one pod. It has no client, no clock and no logger. Package reconcile
// observes and applies.
//
// # The life of an address
//
//	free ──bind──▶ Bound ──pod terminated, owner keeps the name──▶ Reserved ──▶ Bound
//	  ▲              │                                                │ owner gone, or
//	  │              └──pod terminated, any other──▶ Resting ◀────────┘ no longer asks
//	  └─────────────reuseDelaySeconds later─────────────┘ │
//	                                    Bound ◀───────────┘ same name and owner
//
// Two live pods never have the same address, even if other controllers write too. Three
// rules ensure this:
//
//  1. A compare-and-swap on the one AddressBlock that covers an address binds it.
//  2. An entry leaves the state Bound only after a live read, made after the AddressBlocks
//     were read, shows that its pod has terminated. Terminated means that the UID is gone,
//     or that the phase is Succeeded or Failed. Both are final.
//  3. A pod publishes an address only while the entry is Bound to its UID. The one write
//     carries this UID and the resourceVersion of the gated pod.
package network
