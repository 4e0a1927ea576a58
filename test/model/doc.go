// Package model visits every state that a small world can reach: an API server,
// one or two controllers at work at once, users, kubelets and a garbage collector.
// No product code imports it; the tests of package reconcile run it on the real
// Reconciler.
//
// # A sync is a function
//
// The search does not imitate the controller. A sync is a function of the caches
// when it starts, of what the controller remembers, of the time and of the answers
// to its calls; so a sync under way is kept as its view and the answers so far, and
// its next call is found by running the real sync from its start:
//
//	view, answers []      -> get pods a
//	view, answers [a]     -> patch addressblocks blue-10.0.0.0
//	view, answers [a, ok] -> patch networks/status blue
//	view, three answers   -> it is over; this is what the controller remembers
//
// Between any two calls anything else can happen: the other controller's calls, a
// crash, an edit. The same function of the same arguments is run once.
//
// # The API server
//
// What a write makes of an object the model does not say itself: it asks test/apiserver,
// which is compared with a real API server, and keeps the answer for the next state in
// which the same is written. Its own are the numbers that it gives, what it holds for one
// state (see prepare), and the store, of which every state has one.
//
// # States
//
// resourceVersions, counted for each kind, and UIDs are renumbered, so that states
// that mean the same are one; so are two that differ in which controller is which.
// A cache catches up when a sync starts, or not: what it showed between two syncs,
// nobody has looked at. A sync that makes no call leaves nothing behind, and is no
// transition.
//
// # What is checked
//
// In every state and of every call: S1 to S8 of the design, as far as they can be
// said of it. Of the graph without faults, edits and syncs that start from an old
// view: it has no cycle, so that every path in it ends, and every end is converged,
// as the pure packages have it and by rules of the model's own. So the world
// converges from every state that was visited, whatever happens in which order.
package model
