// Package sim simulates the parts of a cluster around the API server of test/apiserver.
// Tests use it to run the whole controller under testing/synctest. A Process is an
// http.RoundTripper, so the real clients, informers and leader election use it.
//
//	controller --HTTP--> Process --calls--> director --one at a time--> apiserver.Server
//	           <--watch events, one at a time--'                              |
//	kubelet, scheduler, garbage collector, storage, Jobs, StatefulSets <-> store
//
// The director takes one step when nothing in the bubble can run any more. It executes one
// request, or delivers one event to one watch. So a run is a sequence of steps. A test
// chooses which step comes next. It can drop steps: a process is killed before or after its
// n-th write. It can delay steps: a watch is frozen, or a request is held.
package sim
