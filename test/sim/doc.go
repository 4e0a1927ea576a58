// Package sim is the part of a cluster around the API server of test/apiserver, for tests
// that run the whole controller under testing/synctest: a Process is an
// http.RoundTripper, so that the real clients, informers and leader election speak to it.
//
//	controller --HTTP--> Process --calls--> director --one at a time--> apiserver.Server
//	           <--watch events, one at a time--'                              |
//	kubelet, scheduler, garbage collector, storage, Jobs, StatefulSets <-> store
//
// The director takes one step when nothing in the bubble can run any more: it
// executes one request, or hands one event to one watch. So a run is a sequence of
// steps, and a test says which step comes next, which never comes (a process is
// killed before or after its n-th write), and which waits (a watch that is frozen,
// a request that is delayed).
package sim
