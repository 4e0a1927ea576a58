// Package pod2 decides what is done for a Pod2, given what is.
//
// It is pure: Diff takes a State and returns a Plan. Nothing here has a client, a
// clock or a logger; package reconcile observes and applies.
//
// # The pods of a Pod2
//
// A pod is ours when its controller owner reference has the UID of the Pod2;
// names and labels prove nothing. With replicas 3 the replicas are the ordinals 0
// to 2 (from spec.ordinals.start), and this is what becomes of each pod, first
// match wins:
//
//	not ours, a replica's name             never touched; the replica waits and the condition says so
//	not ours                               ignored
//	terminating                            waited for
//	ours, not the name of a replica        deleted: scaled down; if it serves, only when it can be spared
//	outdated, not available                deleted: whatever it was, nobody loses it
//	outdated                               deleted; a RollingUpdate keeps replicas - maxUnavailable available
//	over (Failed or Succeeded)             deleted once its delay has passed
//	any other                              left alone
//
// A replica without a pod is created while there are fewer pods of ours, those
// that terminate or are over included, than replicas. So two pods never share an
// ordinal, and a pod that does not go away is never worked around.
//
// Worked example: replicas 3, maxUnavailable 1, a new image.
//
//	web-0 available  web-1 available  web-2 available    delete web-2
//	web-0 available  web-1 available  web-2 terminating  nothing
//	web-0 available  web-1 available                     create web-2 with the new image
//	web-0 available  web-1 available  web-2 not ready    nothing: the update waits
//	web-0 available  web-1 available  web-2 available    delete web-1
//
// Had the new image never become ready, the next change of the template would
// make that web-2 outdated and not available: it is deleted at once, so a good
// image repairs the rollout unaided.
package pod2
