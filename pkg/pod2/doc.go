// Package pod2 decides what is done for a Pod2, given what is.
//
// It is pure: Diff takes a State and returns a Plan. Nothing here has a client, a
// clock or a logger; package reconcile observes and applies.
//
// # The pods of a Pod2
//
// A pod is ours when its controller owner reference has the UID of the Pod2;
// names and labels prove nothing. Only pods of ours are changed or deleted, but for
// the one patch that adopts a pod: it adds our owner reference and labels, to a pod
// that has no controller. A Pod2 that is being deleted adopts nothing.
//
// Replicas have places, and places have ordinals: replicas 3 with reserveOrdinals
// [1] has the ordinals 0, 2 and 3. During an update surge replicas have the places
// that follow. This is what becomes of each pod, first match wins:
//
//	no controller, a replica's name, and   adopted (see adoption), before anything is
//	as we made it or would make it         decided about the others
//	no controller, the name of a replica   adopted as well, to be scaled down
//	that is no more, and of our revisions
//	not ours, the name of a replica        never touched; the replica waits and the condition says so
//	not ours                               ignored
//	terminating                            waited for
//	ours, without a place                  deleted: scaled down; if it serves, only when it can be spared
//	stale                                  a step towards the revision of the spec, see step; one that
//	                                       costs a replica that serves only when it can be spared,
//	                                       and when its addresses can be had (see holdForAddresses)
//	over (Failed or Succeeded)             deleted once its delay has passed
//	any other                              left alone
//
// Stale is what is outdated and not frozen, by a partition or a pause, and not left
// to its user by OnDelete. What can be spared is one number for all of this: of all
// pods of ours that serve, surge and surplus too, so many as exceed replicas -
// maxUnavailable. A replica without a pod is created while there are fewer pods of
// ours, those that terminate or are over included, than replicas and maxSurge. So
// two pods never share an ordinal, and a pod that does not go away is never worked
// around.
//
// Worked example: replicas 3, maxUnavailable 1, a new template.
//
//	web-0 available  web-1 available  web-2 available    delete web-2
//	web-0 available  web-1 available  web-2 terminating  nothing
//	web-0 available  web-1 available                     create web-2 of the new template
//	web-0 available  web-1 available  web-2 not ready    nothing: the update waits
//	web-0 available  web-1 available  web-2 available    delete web-1
//
// Had the new one never become ready, the next change of the template would make
// that web-2 stale and not available: it is replaced at once, so a good template
// repairs the rollout unaided.
//
// The same with maxSurge 1 and maxUnavailable 0:
//
//	web-0  web-1  web-2                 create web-3 of the new template
//	web-0  web-1  web-2  web-3          delete web-2, once web-3 is available
//	...                                 until all are of the new template and available
//	web-0  web-1  web-2  web-3          delete web-3
//
// # Claims
//
// A pod is created once each of its claims exists, or is created with it, and is
// neither another owner's nor on its way out; claims.go has the table. They are no
// part of the revision: a claim grows beneath a pod that runs.
package pod2
