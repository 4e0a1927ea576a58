// Package pod2 compares a Pod2 with its pods, and decides which objects to write.
//
// It is pure: Diff takes a State and returns a Plan. This package has no client, no clock
// and no logger; package reconcile observes and applies.
//
// # The pods of a Pod2
//
// A pod belongs to a Pod2 if its controller owner reference has the UID of the Pod2;
// names and labels prove nothing. The controller changes and deletes only pods that the
// Pod2 owns. The one exception is the patch that adopts a pod: it adds the owner
// reference and labels to a pod that has no controller. A Pod2 that is being deleted
// adopts nothing.
//
// Replicas have places, and places have ordinals: replicas 3 with reserveOrdinals [1] has
// the ordinals 0, 2 and 3. During an update, surge replicas have the places that follow.
// The table shows how each pod is handled; the first match wins:
//
//	no controller, a replica's name, and   adopted (see adoption), before anything is
//	it matches a revision or the template  decided about the others
//	no controller, the name of a replica   adopted as well, and then scaled down
//	that no longer exists, and it matches
//	a revision
//	owned by another controller, with a    never touched; the replica waits and the condition
//	replica's name                         says so
//	owned by another controller            ignored
//	terminating                            waited for
//	owned, without a place                 deleted: scaled down; while it is available, only
//	                                       if the budget allows
//	stale                                  one step towards the revision of the spec, see step.
//	                                       A step that costs an available replica needs the
//	                                       budget, and the new addresses (see holdForAddresses)
//	terminated (Failed or Succeeded)       deleted once its delay has passed
//	any other                              left alone
//
// A pod is stale if it is outdated and neither a partition, a pause nor OnDelete keeps
// it. All of this shares one budget: the number of available pods that exceeds replicas -
// maxUnavailable. It counts all pods that the Pod2 owns, surge and surplus pods too. A
// replica without a pod is created while the Pod2 owns fewer pods than replicas +
// maxSurge, and terminating and terminated pods count. So two pods never share an
// ordinal, and the controller never works around a pod that does not terminate.
//
// Worked example: replicas 3, maxUnavailable 1, a new template.
//
//	web-0 available  web-1 available  web-2 available    delete web-2
//	web-0 available  web-1 available  web-2 terminating  nothing
//	web-0 available  web-1 available                     create web-2 of the new template
//	web-0 available  web-1 available  web-2 not ready    nothing: the update waits
//	web-0 available  web-1 available  web-2 available    delete web-1
//
// If the new web-2 had never become ready, the next change of the template would make it
// stale and not available. The controller then replaces it at once, so a good template
// repairs the rollout unaided.
//
// The same with maxSurge 1 and maxUnavailable 0:
//
//	web-0  web-1  web-2                 create web-3 of the new template
//	web-0  web-1  web-2  web-3          delete web-2, once web-3 is available
//	...                                 until all are of the new template and available
//	web-0  web-1  web-2  web-3          delete web-3
//
// # PersistentVolumeClaims
//
// A pod is created once each of its PersistentVolumeClaims (PVCs) exists, or together
// with them. A PVC must be neither another owner's nor terminating; claims.go has the
// table. PVCs are not part of the revision: a PVC grows while its pod runs.
package pod2
