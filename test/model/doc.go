// Package model visits every state that a small world can reach. The world has an API
// server, one or two controllers that work at once, users, kubelets and a garbage
// collector. No product code imports this package. The tests of package reconcile run it on
// the real Reconciler.
//
// # A sync is a function
//
// The search does not imitate the controller. A sync is a function of four things: its
// caches at the start, the controller's memory, the time, and the answers to its calls. So
// an unfinished sync is stored as its view and the answers so far. To find its next call,
// the model runs the real sync from its start:
//
//	view, answers []      -> get pods a
//	view, answers [a]     -> patch addressblocks blue-10.0.0.0
//	view, answers [a, ok] -> patch networks/status blue
//	view, three answers   -> the sync has ended; this is the controller's memory
//
// Between any two calls anything else can happen: calls of the other controller, a crash,
// an edit. A function call with the same arguments runs only once.
//
// # The API server
//
// The model does not decide how a write changes an object. It asks test/apiserver, which is
// compared with a real API server. It keeps each answer for other states with the same
// write. The model itself numbers versions and UIDs, merges states that mean the same (see
// prepare), and keeps a store for every state.
//
// # States
//
// resourceVersions, counted for each kind, and UIDs are renumbered, so states that mean the
// same are one state. Two states that differ only in the names of the controllers are one
// state, too. A cache may catch up when a sync starts, or stay behind. No code reads the
// cache between two syncs. A sync that makes no call changes nothing, and is not a
// transition.
//
// # Checks
//
// Every state and every call is checked for S1 to S8 of the design, as far as they apply.
// The graph without faults, edits and syncs that start from an old view is checked for two
// things. It has no cycle, so every path in it ends. Every end is converged, by the pure
// packages and by the model's own rules. So the world converges from every visited state,
// in any order of events.
package model
