package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/apiserver"
)

// stray is a pod outside our watch that matches the template.
func stray(name string) *corev1.Pod {
	pod := newPod(name + " unlabelled phase=Running")
	pod.Spec = *newPod2("web", 1).Spec.Template.Spec.DeepCopy()
	pod.Spec.Hostname = name
	return pod
}

// A StatefulSet's pod on no Network is found because its name is taken.
func TestAPodThatWasFoundIsAdopted(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	pod := stray("web-0")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "keeper", UID: "uid-of-keeper"}}
	pod.Annotations = map[string]string{v1.Pod2RequestAnnotation: "red", "example.com/note": "keep"}
	pod.Labels = map[string]string{"app": "web"}
	w.add(pod)
	all := ""
	for range 3 {
		calls, err := w.sync(KindPod2, "web")
		if err != nil && !errors.Is(err, ErrStale) {
			t.Fatal(err)
		}
		all += calls + "\n"
		w.catchUp()
	}
	same(t, strings.TrimSpace(all), `
get pod2s web
create pods web-0 -> AlreadyExists
get pods web-0
get pod2s web
patch pods web-0 uid=uid-of-web-0 rv=102
event on web: Normal Adopting: adopted web-0
patch pod2s/status web uid=uid-of-web rv=101`)
	got := podOf(w, "web-0")
	var text []string
	for _, ref := range got.OwnerReferences {
		text = append(text, fmt.Sprintf("%s %s %s %t", ref.Kind, ref.Name, ref.UID, ref.Controller != nil && *ref.Controller))
	}
	for _, key := range slices.Sorted(maps.Keys(got.Labels)) {
		text = append(text, key+"="+got.Labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(got.Annotations)) {
		text = append(text, key+"="+got.Annotations[key])
	}
	slices.Sort(text[:2])
	same(t, strings.ReplaceAll(strings.Join(text, "\n"), pod2.RevisionHash(newPod2("web", 1)), "HASH"), `
ConfigMap keeper uid-of-keeper false
Pod2 web uid-of-web true
app=web
samplecrd.k8s.io/managed=true
samplecrd.k8s.io/pod-index=0
samplecrd.k8s.io/pod-template-hash=HASH
samplecrd.k8s.io/pod2=web
example.com/note=keep`)
}

// A write of the kubelet makes a sighting old. The sync looks for the pod again at once,
// not after sightingTTL.
func TestAFoundPodThatChangedIsLookedForAgain(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.add(stray("web-0"))
	all := ""
	for i := range 4 {
		calls, err := w.sync(KindPod2, "web")
		if (err == nil) != (i == 3) || err != nil && !errors.Is(err, ErrStale) {
			t.Fatalf("sync %d: %v", i, err)
		}
		all += calls + "\n"
		if i == 0 {
			w.change(stray("web-0"))
		}
		w.catchUp()
	}
	same(t, strings.TrimSpace(all), `
get pod2s web
create pods web-0 -> AlreadyExists
get pods web-0
get pod2s web
patch pods web-0 uid=uid-of-web-0 rv=102 -> Conflict
get pod2s web
create pods web-0 -> AlreadyExists
get pods web-0
get pod2s web
patch pods web-0 uid=uid-of-web-0 rv=103
event on web: Normal Adopting: adopted web-0`)
}

// The watch does not show yet that the Pod2 is being deleted and orphans its dependents,
// or that it now retains PVCs. With a new owner reference, the garbage collector would
// delete them, data included.
func TestNothingIsTakenForAPod2ThatIsNotAsItWas(t *testing.T) {
	deleting := &v1.Pod2ClaimRetentionPolicy{WhenDeleted: v1.DeleteClaim, WhenScaled: v1.DeleteClaim}
	going := func(p *v1.Pod2) {
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(now)), []string{metav1.FinalizerOrphanDependents}
	}
	ownerless := func() *appsv1.ControllerRevision {
		revision := revisionOf(newPod2("web", 1))
		revision.OwnerReferences = nil
		return revision
	}
	for _, row := range []struct {
		name    string
		was     *v1.Pod2
		objects []runtime.Object
		now     func(*v1.Pod2)
	}{
		{"pod adopted", newPod2("web", 1), []runtime.Object{orphan("web-0")}, going},
		{"PVC gets its owner reference back", storing(1, "1Gi"), []runtime.Object{replica("web-0"), claimOf("data-web-0", "0")}, going},
		{"revision gets its owner reference back", newPod2("web", 1), []runtime.Object{replica("web-0"), ownerless()}, going},
		{"PVC deleted", storing(0, "1Gi"), []runtime.Object{claimOf("data-web-0", "0")}, func(p *v1.Pod2) { p.Spec.PersistentVolumeClaimRetentionPolicy = nil }},
	} {
		t.Run(row.name, func(t *testing.T) {
			if len(row.was.Spec.VolumeClaimTemplates) > 0 {
				row.was.Spec.PersistentVolumeClaimRetentionPolicy = deleting
			}
			w := newWorld(t, row.was)
			for _, o := range row.objects {
				if revision, ok := o.(*appsv1.ControllerRevision); ok {
					w.change(revision)
					continue
				}
				w.add(o)
			}
			w.catchUp()
			live := stored[*v1.Pod2](w, "web").DeepCopy()
			row.now(live)
			w.change(live)
			calls, err := w.sync(KindPod2, "web")
			if !errors.Is(err, ErrStale) {
				t.Errorf("not stale: %v", err)
			}
			same(t, onlyWrites(calls), "")
		})
	}
}

// A found pod is still remembered when the API server refuses its adoption: the next
// decisions include it.
func TestARefusedAdoptionOfAFoundPodIsNotForgotten(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.add(stray("web-0"))
	w.refuse = refusing("patch pods", refusal(403, metav1.StatusReasonForbidden, "policy: hands off"))
	var all []string
	for range 3 {
		calls, _ := w.sync(KindPod2, "web")
		all = append(all, withoutEvents(calls))
		w.catchUp()
	}
	if strings.Count(strings.Join(all, "\n"), "create pods web-0") != 1 {
		t.Errorf("each sync reads it again:\n%s", strings.Join(all, "\n\n"))
	}
}

// The user must fix the reason why a pod cannot be adopted.
func TestARefusedAdoptionIsTold(t *testing.T) {
	w := newWorld(t, newPod2("web", 1), orphan("web-0"))
	w.refuse = refusing("patch pods", refusal(403, metav1.StatusReasonForbidden, "policy: hands off"))
	if _, err := w.sync(KindPod2, "web"); err == nil {
		t.Error("no error")
	}
	same(t, readyOf(w), "FailedAdopt: policy: hands off")
}

// It does not hold up the other replicas. The revision of the pod stays.
func TestARefusedAdoptionHoldsUpNothing(t *testing.T) {
	p := newPod2("web", 2)
	p.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	before := p.DeepCopy()
	before.Spec.Template.Spec.Containers[0].Image = "before"
	revision := pod2.Diff(pod2.State{Pod2: before}).CreateRevision
	pod := orphan("web-0")
	pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(before)
	w := newWorld(t, p, revision, pod)
	w.refuse = refusing("patch pods", refusal(403, metav1.StatusReasonForbidden, "policy: hands off"))
	calls, err := w.sync(KindPod2, "web")
	if err == nil {
		t.Error("there is no retry")
	}
	same(t, onlyWrites(calls), "patch pods web-0 uid=uid-of-web-0 rv=103 -> Forbidden\ncreate pods web-1\npatch pod2s/status web uid=uid-of-web rv=101")
	same(t, readyOf(w), "FailedAdopt: policy: hands off")
}

// The sync before recorded the failure of web-0, but could not delete the pod.
func TestARefusedAdoptionHoldsUpNoReplacement(t *testing.T) {
	p, ended, left := newPod2("web", 2), replica("web-0 phase=Failed").(*corev1.Pod), orphan("web-1")
	apiserver.SetDefaults(p) // otherwise the record of the failure would change its template
	for _, pod := range []*corev1.Pod{ended, left} {
		pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(p)
	}
	w := newWorld(t, p, ended, left)
	handsOff := refusing("patch pods ", refusal(403, metav1.StatusReasonForbidden, "policy: hands off"))
	noDeletion := refusing("delete pods", down)
	w.refuse = func(call string) error { return cmp.Or(handsOff(call), noDeletion(call)) }
	_, _ = w.sync(KindPod2, "web")
	w.catchUp()
	w.refuse = handsOff
	calls, _ := w.sync(KindPod2, "web")
	same(t, onlyWrites(calls), "patch pods web-1 uid=uid-of-web-1 rv=103 -> Forbidden\ndelete pods web-0 uid=uid-of-web-0 rv=102")
}
