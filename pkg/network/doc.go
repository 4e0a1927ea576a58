// Package network decides what happens to the addresses of a Network.
//
// It is pure: Diff takes a State and returns a Plan, Publish takes what concerns
// one pod and returns what is written into it. Nothing here has a client, a
// clock or a logger; package reconcile observes and applies.
//
// # The life of an address
//
//	free ──bind──▶ Bound ──pod over, owner keeps the name──▶ Reserved ──▶ Bound
//	  ▲              │                                          │ owner gone, or
//	  │              └──pod over, any other──▶ Resting ◀────────┘ no longer asks
//	  └───────────reuseDelaySeconds later─────────┘ │
//	                              Bound ◀───────────┘ same name and owner
//
// Two live pods never have one address, whoever else writes, because
//
//  1. an address is bound by a compare-and-swap on the one block that covers it;
//  2. an entry leaves the state Bound only with the live read, made after the
//     ledger was read, that its pod is over: that UID is gone or its phase is
//     Succeeded or Failed, and neither is ever taken back;
//  3. a pod publishes an address only while the entry says Bound to its UID, in
//     one write that carries this UID and the resourceVersion of the gated pod.
package network
