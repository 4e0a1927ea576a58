package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/chance"
)

// withoutSteady returns the PVCs that belong to no steady replica.
func (w *world) withoutSteady(s pod2.State, claims []*corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
	if s.Steady == nil {
		return claims
	}
	var others []*corev1.PersistentVolumeClaim
	for _, c := range claims {
		ordinal, _ := pod2.ClaimOrdinal(s.Pod2, c.Name)
		if !pod2.Ordinals(s.Pod2).Has(ordinal) || slices.Contains(s.Steady.Others(), ordinals.Name("web", ordinal)) {
			others = append(others, c)
		}
	}
	return others
}

// claimHappens changes a PVC in the cache, sends its event, and describes the change. It returns the event if it is late:
// that of a pod that the next sync looks at in any case.
func (w *world) claimHappens(dice *rand.Rand, known rememberedPods, pod string) (text string, late func()) {
	send := func(claim *corev1.PersistentVolumeClaim) { w.r.claimChanged(claim) }
	late = func() {}
	if slices.Contains(namesOf(known.others), pod) && chance.One(dice, 2) {
		send = func(claim *corev1.PersistentVolumeClaim) { late = func() { w.r.claimChanged(claim) } }
	}
	old := w.r.claims.get(ns, "data-"+pod)
	if old != nil && chance.One(dice, 3) {
		w.must(w.r.claims.indexer.Delete(old))
		send(old)
		return "gone is " + old.Name, late
	}
	c := claimOf("data-"+pod, strings.TrimPrefix(pod, "web-"))
	c.ResourceVersion, c.Spec = w.next(), sized(chance.Pick(dice, "1Gi", "1Gi", "512Mi"))
	if chance.One(dice, 4) {
		c.Annotations = map[string]string{v1.SurgeClaimAnnotation: "true"}
	}
	w.must(w.r.claims.indexer.Update(c))
	if old == nil || !sameClaim(old, c) {
		send(c)
	}
	return fmt.Sprintf("%s requests %s and has annotations %v", c.Name, c.Spec.Resources.Requests.Storage(), c.Annotations), late
}

// Decisions read each field whose change wakes the Pod2. The others change while a volume is provisioned.
func TestWhichUpdatesOfAClaimConcernItsPod2(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		same   bool
	}{
		"the node of its first pod": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n1"}
		}, true},
		"its volume": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-1" }, true},
		"another":    {func(c *corev1.PersistentVolumeClaim) { c.UID = "uid-of-another" }, false},
		"going":      {func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, false},
		"its labels": {func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }, false},
		"of a surge replica": {func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1.SurgeClaimAnnotation, "true")
		}, false},
		"its owner":        {func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{{Name: "web"}} }, false},
		"its request":      {func(c *corev1.PersistentVolumeClaim) { c.Spec = sized("2Gi") }, false},
		"its StorageClass": {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, false},
		"bound":            {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }, false},
		"the size of its volume": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}
		}, false},
	} {
		is := claimOf("data-web-0", "0")
		if row.change(is); sameClaim(claimOf("data-web-0", "0"), is) != row.same {
			t.Errorf("%s: an update without news for the Pod2 is %t, want %t", name, !row.same, row.same)
		}
	}
}
