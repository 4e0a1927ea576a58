// Package sim is a Kubernetes API server in memory and the part of a cluster
// around it, for tests that run the whole controller under testing/synctest: a
// Process is an http.RoundTripper, so that the real clients, informers and
// leader election speak to it.
//
//	controller --HTTP--> Process --calls--> director --one at a time--> Server
//	           <--watch events, one at a time--'                          |
//	kubelet, scheduler, garbage collector, storage, Jobs, StatefulSets <-> store
//
// The director takes one step when nothing in the bubble can run any more: it
// executes one request, or hands one event to one watch. So a run is a sequence of
// steps, and a test says which step comes next, which never comes (a process is
// killed before or after its n-th write), and which waits (a watch that is frozen,
// a request that is delayed).
//
// What the server promises is what the controller relies on: resourceVersions and
// UIDs, conflicts and preconditions, generations, finalizers, the status
// subresource, watches with their first list, selectors and 410 Gone. Requests are
// compared with those of a real kube-apiserver in test/integration, so that it
// cannot lie. It has no validation but the rules on which safety rests (a sealed block,
// the gates of a pod).
//
// A test may break it (Fault: errors, timeouts and broken connections, before or after
// the request is carried out) and may add admission (Rule: policies, webhooks and quotas
// that refuse, and changes of what is created). Both begin and end while the program runs.
package sim
