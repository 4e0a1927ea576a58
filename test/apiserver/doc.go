// Package apiserver is a Kubernetes API server in memory, for tests. Clients reach it
// through an http.RoundTripper, so the real clients, informers and leader election use it:
//
//	client --HTTP--> Server.Config(who) --Call--> faults --> rules --> store --events--> watches
//
// The server has the behaviour that the controller relies on: resourceVersions and UIDs,
// conflicts and preconditions, generations, finalizers and the status subresource. It has
// watches with an initial list, selectors and 410 Gone. test/integration compares its
// answers with those of a real kube-apiserver, so wrong behaviour is found. It validates
// only the rules on which safety rests (a sealed AddressBlock, the gates of a pod).
//
// A test may break the server with a Fault: an error, a timeout or a broken connection,
// before or after the request is carried out. A test may add admission with a Rule: a
// policy, webhook or quota that refuses, or a change of created objects. Both may begin and
// end while the program runs.
//
// The server has no scheduler, kubelet or garbage collector: they are in test/sim.
package apiserver
