package pod2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
)

// claim is a PersistentVolumeClaim (PVC) of a Pod2. It is named
// <template>-<pod2>-<ordinal>, as for a StatefulSet. Its ordinal is that of a replica or
// a surge replica (a slot), or of neither. The table shows how each PVC is handled; the
// first match wins:
//
//	of another controller or Pod2    never touched; its slot gets no pod, and the condition Ready says so
//	terminating, or owned by an
//	earlier Pod2 with the same name  never touched; its slot gets no pod while the PVC exists
//	of a slot, missing               created before the pod, or for a pod that lost it
//	of a slot                        used, whoever created it: labels, owner and mark are set, then it grows
//	any, while its pod exists        left alone
//	marked as a surge replica's      deleted
//	whenScaled Delete                deleted
//	any other                        kept, without an owner reference unless whenDeleted says Delete
//
// Only a PVC that is created for a surge replica gets the mark. A PVC that existed before
// has data, so the retention policy applies to it.
type claim struct {
	*corev1.PersistentVolumeClaim
	template *corev1.PersistentVolumeClaim
	ordinal  int32
}

func claimName(template, pod2 string, ordinal int32) string {
	return template + "-" + ordinals.Name(pod2, ordinal)
}

// ClaimOrdinal returns the ordinal of the replica of p whose PVC has this name, for any
// of the templates.
func ClaimOrdinal(p *v1.Pod2, name string) (int32, bool) {
	_, ordinal, ok := parseClaim(p, name)
	return ordinal, ok
}

func parseClaim(p *v1.Pod2, name string) (template *corev1.PersistentVolumeClaim, ordinal int32, ok bool) {
	for i := range p.Spec.VolumeClaimTemplates {
		template = &p.Spec.VolumeClaimTemplates[i]
		if pod, cut := strings.CutPrefix(name, template.Name+"-"); cut {
			if ordinal, ok = ordinals.Parse(p.Name, pod); ok {
				return template, ordinal, true
			}
		}
	}
	return nil, 0, false
}

// readClaims returns the PVCs that have a name for this Pod2, in name order.
func readClaims(s State) []claim {
	var claims []claim
	for _, object := range s.Claims {
		if template, ordinal, ok := parseClaim(s.Pod2, object.Name); ok {
			claims = append(claims, claim{object, template, ordinal})
		}
	}
	return claims
}

// claimsOf returns the PVCs for the ordinal at a place, in the order of the templates; a
// claim without an object is missing.
func (v *view) claimsOf(place int) []claim {
	ordinal := v.ordinals.At(place)
	claims := make([]claim, 0, len(v.pod2.Spec.VolumeClaimTemplates))
	for i := range v.pod2.Spec.VolumeClaimTemplates {
		template := &v.pod2.Spec.VolumeClaimTemplates[i]
		c := claim{template: template, ordinal: ordinal}
		name := claimName(template.Name, v.pod2.Name, ordinal)
		if at, found := slices.BinarySearchFunc(v.claims, name, func(c claim, name string) int { return strings.Compare(c.Name, name) }); found {
			c = v.claims[at]
		}
		claims = append(claims, c)
	}
	return claims
}

// claimTaken reports a PVC of another owner.
func (v *view) claimTaken(c claim) string {
	if c.PersistentVolumeClaim == nil || v.earlier(c) {
		return ""
	}
	owner := ""
	if ref := metav1.GetControllerOfNoCopy(c); ref != nil && ref.UID != v.pod2.UID {
		owner = ref.Kind + " " + ref.Name
	} else if other := c.Labels[v1.Pod2Label]; other != "" && other != v.pod2.Name {
		owner = "Pod2 " + other
	}
	if owner == "" {
		return ""
	}
	return fmt.Sprintf("PersistentVolumeClaim %s is owned by %s: the replica waits until it is deleted or its owner releases it (the controller notices within 30 seconds)", c.Name, owner)
}

// claimGoing reports a PVC that is being deleted, or that the garbage collector is going
// to delete.
func (v *view) claimGoing(c claim) string {
	switch {
	case c.PersistentVolumeClaim == nil:
		return ""
	case c.DeletionTimestamp != nil:
		return fmt.Sprintf("PersistentVolumeClaim %s is being deleted", c.Name)
	case v.earlier(c):
		return fmt.Sprintf("PersistentVolumeClaim %s of an earlier Pod2 %s still exists", c.Name, v.pod2.Name)
	}
	return ""
}

// earlier reports whether the owner of the PVC is an earlier Pod2 with the same name.
func (v *view) earlier(c claim) bool {
	return slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return IsOwner(&ref) && ref.Name == v.pod2.Name && ref.UID != v.pod2.UID
	})
}

// untouchable returns why the Pod2 cannot use the PVC, or not for long.
func (v *view) untouchable(c claim) string { return cmp.Or(v.claimTaken(c), v.claimGoing(c)) }

// barred returns why the PVCs of a place prevent a pod there.
func (v *view) barred(place int, why func(claim) string) string {
	for _, c := range v.claimsOf(place) {
		if text := why(c); text != "" {
			return text
		}
	}
	return ""
}

// missingClaims returns the PVCs to create for the pod of a place.
func (v *view) missingClaims(place int) []*corev1.PersistentVolumeClaim {
	var missing []*corev1.PersistentVolumeClaim
	for _, c := range v.claimsOf(place) {
		if c.PersistentVolumeClaim != nil {
			continue
		}
		object := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: v.pod2.Namespace, Name: claimName(c.template.Name, v.pod2.Name, c.ordinal),
			},
			Spec: *c.template.Spec.DeepCopy(),
		}
		template := c.template.DeepCopy()
		object.Labels, object.Annotations, object.Finalizers = template.Labels, template.Annotations, template.Finalizers
		if place >= v.replicas {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1.SurgeClaimAnnotation, "true")
		}
		c.PersistentVolumeClaim = object
		missing = append(missing, v.marked(c))
	}
	return missing
}

// lostClaims returns the PVCs missing for pods that exist: such a pod is not scheduled
// before someone recreates the PVC.
func (v *view) lostClaims() []*corev1.PersistentVolumeClaim {
	var lost []*corev1.PersistentVolumeClaim
	for place, r := range v.unsteady(v.slots) {
		if r.live() {
			lost = append(lost, v.missingClaims(place)...)
		}
	}
	return lost
}

// settledClaims reports whether the PVCs of a replica exist and need nothing.
func (v *view) settledClaims(place int) bool {
	return !slices.ContainsFunc(v.claimsOf(place), func(c claim) bool {
		if c.PersistentVolumeClaim == nil || v.untouchable(c) != "" || metadataDiffers(c.PersistentVolumeClaim, v.marked(c)) != "" {
			return true
		}
		reason, _, _ := v.size(c)
		return reason != ""
	})
}

// otherClaims returns the PVCs of the State, except those of steady replicas.
func (v *view) otherClaims() []*corev1.PersistentVolumeClaim {
	var others []*corev1.PersistentVolumeClaim
	for _, c := range v.claims {
		if place, ok := v.ordinals.Place(c.ordinal); !ok || v.steady.at(place) == nil {
			others = append(others, c.PersistentVolumeClaim)
		}
	}
	return others
}

// ClaimNames returns the names of the PVCs of p's pod with this name.
func ClaimNames(p *v1.Pod2, pod string) []string {
	ordinal, ok := ordinals.Parse(p.Name, pod)
	if !ok {
		return nil
	}
	names := make([]string, 0, len(p.Spec.VolumeClaimTemplates))
	for _, template := range p.Spec.VolumeClaimTemplates {
		names = append(names, claimName(template.Name, p.Name, ordinal))
	}
	return names
}

func (v *view) slot(c claim) (place int, ok bool) {
	place, ok = v.ordinals.Place(c.ordinal)
	return place, ok && place < v.replicas+len(v.surge)
}

// marked returns a copy of the PVC with the labels, the mark and the owner reference that
// it must have.
func (v *view) marked(c claim) *corev1.PersistentVolumeClaim {
	marked := new(corev1.PersistentVolumeClaim)
	*marked = *c.PersistentVolumeClaim // a deep copy of all would be slow
	marked.Labels, marked.Annotations, marked.OwnerReferences = maps.Clone(c.Labels), maps.Clone(c.Annotations), slices.Clone(c.OwnerReferences)
	place, used := v.slot(c)
	if used {
		metav1.SetMetaDataLabel(&marked.ObjectMeta, v1.Pod2Label, v.pod2.Name)
		metav1.SetMetaDataLabel(&marked.ObjectMeta, v1.PodIndexLabel, strconv.Itoa(int(c.ordinal)))
		if place < v.replicas {
			delete(marked.Annotations, v1.SurgeClaimAnnotation)
		}
	}
	ours := func(ref metav1.OwnerReference) bool { return ref.UID == v.pod2.UID }
	goes := v.retention().WhenDeleted == v1.DeleteClaim || isSurge(marked)
	switch owned := slices.ContainsFunc(marked.OwnerReferences, ours); {
	case owned && !goes:
		marked.OwnerReferences = slices.DeleteFunc(marked.OwnerReferences, ours)
	case !owned && goes && used:
		// The Pod2 is not its controller, because a PVC has none, and the reference does
		// not block a foreground deletion. A StatefulSet does the same.
		version, kind := pod2Kind.ToAPIVersionAndKind()
		marked.OwnerReferences = append(marked.OwnerReferences, metav1.OwnerReference{APIVersion: version, Kind: kind, Name: v.pod2.Name, UID: v.pod2.UID})
	}
	return marked
}

func isSurge(c *corev1.PersistentVolumeClaim) bool {
	return c.Annotations[v1.SurgeClaimAnnotation] == "true"
}

func (v *view) retention() v1.Pod2ClaimRetentionPolicy {
	if p := v.pod2.Spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		return *p
	}
	return v1.Pod2ClaimRetentionPolicy{}
}

// surplusClaims returns the PVCs to delete: the doomed ones that no slot uses, once no pod of
// any owner has their ordinal.
func (v *view) surplusClaims() []ClaimDeletion {
	var deletions []ClaimDeletion
	for _, c := range v.claims {
		pod := ordinals.Name(v.pod2.Name, c.ordinal)
		if _, used := v.slot(c); used || v.untouchable(c) != "" || !v.doomed(c) || v.podNames[pod] {
			continue
		}
		reason := "scaled down"
		if isSurge(c.PersistentVolumeClaim) {
			reason = "of a surge replica"
		}
		deletions = append(deletions, ClaimDeletion{plan.Delete(c, reason), pod})
	}
	return deletions
}

// doomed reports whether the PVC is deleted as soon as no slot uses it. A PVC without the
// Pod2's label was never used.
func (v *view) doomed(c claim) bool {
	return c.Labels[v1.Pod2Label] == v.pod2.Name && (isSurge(c.PersistentVolumeClaim) || v.retention().WhenScaled == v1.DeleteClaim)
}

// changedClaims returns the PVCs whose metadata must change.
func (v *view) changedClaims() []ClaimChange {
	var changes []ClaimChange
	for _, c := range v.claims {
		_, used := v.slot(c)
		if v.untouchable(c) != "" || !used && (v.doomed(c) || c.Labels[v1.Pod2Label] != v.pod2.Name) {
			continue
		}
		marked := v.marked(c)
		if reason := metadataDiffers(c.PersistentVolumeClaim, marked); reason != "" {
			changes = append(changes, ClaimChange{Claim: marked, Reason: reason})
		}
	}
	return changes
}

// metadataDiffers returns which change of marked the PVC still needs, "" if none.
func metadataDiffers(is, want *corev1.PersistentVolumeClaim) string {
	switch {
	case is.Labels[v1.Pod2Label] != want.Labels[v1.Pod2Label], is.Labels[v1.PodIndexLabel] != want.Labels[v1.PodIndexLabel]:
		return "labels"
	case isSurge(is) != isSurge(want):
		return "no longer belongs to a surge replica"
	case len(is.OwnerReferences) < len(want.OwnerReferences):
		return "to be deleted with the Pod2"
	case len(is.OwnerReferences) > len(want.OwnerReferences):
		return "to be kept when the Pod2 is deleted"
	}
	return ""
}

// eachBarred reports the slots without a pod whose PVCs prevent one, for the first few
// only.
func (v *view) eachBarred(why func(claim) string) string {
	var all []string
	for place, r := range v.unsteady(v.slots) {
		if r.pod != nil || v.unmissed(place, r) {
			continue
		}
		if text := v.barred(place, why); text != "" {
			if all = append(all, text); len(all) > namesShown {
				break
			}
		}
	}
	return list(all)
}
