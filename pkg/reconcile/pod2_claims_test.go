package reconcile

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func sized(size string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast"), Resources: corev1.VolumeResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse(size)},
	}}
}

// storing is a Pod2 with the claim template data.
func storing(replicas int32, size string) *v1.Pod2 {
	p := newPod2("web", replicas)
	p.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: sized(size)}}
	return p
}

func claimOf(name, index string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metaOf(name), Spec: sized("1Gi"), Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	c.Labels = map[string]string{v1.Pod2Label: "web", v1.PodIndexLabel: index}
	return c
}

func mustSync(t *testing.T, w *world, want string) {
	t.Helper()
	calls, err := w.sync(KindPod2, "web")
	if err != nil {
		t.Fatal(err)
	}
	same(t, withoutEvents(calls), want)
}

func TestAClaimIsThereBeforeItsPod(t *testing.T) {
	mustSync(t, newWorld(t, storing(1, "1Gi")), `
get pod2s web
create persistentvolumeclaims data-web-0
create pods web-0
patch pod2s/status web uid=uid-of-web rv=101`)
}

// A quota for PVCs affects no replica that has its PVC.
func TestAClaimThatIsRefused(t *testing.T) {
	w := newWorld(t, storing(2, "1Gi"), claimOf("data-web-0", "0"))
	w.refuse = refusing("create persistentvolumeclaims", quota)
	calls, err := w.sync(KindPod2, "web")
	if !says(err, quota) {
		t.Errorf("the queue must hear of it, to back off; got %v", err)
	}
	same(t, withoutEvents(calls), `
get pod2s web
create pods web-0
create persistentvolumeclaims data-web-1 -> Forbidden
patch pod2s/status web uid=uid-of-web rv=101`)
	same(t, readyOf(w), "FailedCreate: exceeded quota")
}

// A PVC without our label is outside our watch. It is found when its name is taken.
func TestAClaimWithoutLabels(t *testing.T) {
	for _, row := range []struct {
		name, second, says string
		change             func(*corev1.PersistentVolumeClaim)
	}{
		{"another owner's", "patch pod2s/status web uid=uid-of-web rv=101", "ClaimTaken: PersistentVolumeClaim data-web-0 is owned by Database db: " +
			"the replica waits until it is deleted or its owner releases it (the controller notices within 30 seconds)", func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Database", Name: "db", UID: "uid-of-db", Controller: ptr.To(true)}}
		}},
		{"nobody's", "get pod2s web\npatch persistentvolumeclaims data-web-0 uid=uid-of-data-web-0 rv=102\ncreate pods web-0\npatch pod2s/status web uid=uid-of-web rv=101",
			"PodsNotReady: web-0 does not exist yet", func(*corev1.PersistentVolumeClaim) {}},
	} {
		t.Run(row.name, func(t *testing.T) {
			claim := claimOf("data-web-0", "0")
			claim.Labels = nil
			row.change(claim)
			w := newWorld(t, storing(1, "1Gi"), claim)
			calls, err := w.sync(KindPod2, "web")
			if !errors.Is(err, ErrStale) {
				t.Errorf("not stale: %v", err)
			}
			same(t, calls, "get pod2s web\ncreate persistentvolumeclaims data-web-0 -> AlreadyExists\nget persistentvolumeclaims data-web-0")
			mustSync(t, w, row.second)
			same(t, readyOf(w), row.says)
		})
	}
}

// scaled is a Pod2 whose PVCs are deleted if no replica needs them.
func scaled(t *testing.T) *world {
	p := storing(0, "1Gi")
	p.Spec.PersistentVolumeClaimRetentionPolicy = &v1.Pod2ClaimRetentionPolicy{WhenScaled: v1.DeleteClaim}
	return newWorld(t, p, claimOf("data-web-0", "0"))
}

// A cache alone cannot justify deleting data.
func TestAClaimIsDeletedOnceALiveReadFindsNoPod(t *testing.T) {
	mustSync(t, scaled(t), `
get pod2s web
get pods web-0 -> NotFound
delete persistentvolumeclaims data-web-0 uid=uid-of-data-web-0 rv=102
patch pod2s/status web uid=uid-of-web rv=101`)

	w := scaled(t)
	unlabelled := replica("web-0").(*corev1.Pod)
	unlabelled.Labels = nil
	w.add(unlabelled)
	w.catchUp()
	calls, err := w.sync(KindPod2, "web")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, "get pod2s web\nget pods web-0")
}

// The label makes the PVC deletable, and the cache may lag.
func TestAClaimWhoseLabelWasTakenIsKept(t *testing.T) {
	w := scaled(t)
	kept := claimOf("data-web-0", "0")
	kept.Labels = nil
	w.change(kept)
	calls, err := w.sync(KindPod2, "web")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, `
get pod2s web
get pods web-0 -> NotFound
delete persistentvolumeclaims data-web-0 uid=uid-of-data-web-0 rv=102 -> Conflict`)
}

func TestAClaimGrows(t *testing.T) {
	fast := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: ptr.To(true)}
	grown := func() *world {
		w := newWorld(t, storing(1, "2Gi"), claimOf("data-web-0", "0"), replica("web-0"))
		if err := w.informers.Classes.Informer().GetIndexer().Add(fast); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := grown()
	mustSync(t, w, "get pod2s web\npatch persistentvolumeclaims data-web-0 uid=uid-of-data-web-0 rv=102\npatch pod2s/status web uid=uid-of-web rv=101")
	if got := stored[*corev1.PersistentVolumeClaim](w, "data-web-0").Spec.Resources.Requests.Storage().String(); got != "2Gi" {
		t.Errorf("it has %s", got)
	}

	// A quota affects no other writes.
	w = grown()
	w.refuse = refusing("patch persistentvolumeclaims", quota)
	if _, err := w.sync(KindPod2, "web"); !says(err, quota) {
		t.Errorf("the queue must hear of it, to back off; got %v", err)
	}
	var resized string
	for _, c := range stored[*v1.Pod2](w, "web").Status.Conditions {
		if c.Type == v1.ConditionClaimsResized {
			resized = c.Reason + ": " + c.Message
		}
	}
	same(t, resized, "FailedResize: exceeded quota")
	if strings.Contains(readyOf(w), "quota") {
		t.Errorf("Ready says %s", readyOf(w))
	}
}

func TestWhatAClaimConcerns(t *testing.T) {
	claim := claimOf("data-a-b-0", "0")
	w := newWorld(t, claim)
	same(t, w.keysFor(claim), "Pod2 a-b, Pod2 b, Pod2 web")
	same(t, w.keysFor(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}), "Pod2 web")
	same(t, w.keysFor(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}), "")
}
