// Package apiserver is a Kubernetes API server in memory, for tests. Clients reach it by
// an http.RoundTripper, so that the real ones, informers and leader election too, speak to
// it:
//
//	client --HTTP--> Server.Config(who) --Call--> faults --> rules --> store --events--> watches
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
//
// It has no scheduler, kubelet or garbage collector: those are in test/sim.
package apiserver
