package reconcile

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// A replica that has its PVC needs no quota.
func TestARefusedClaimHoldsUpNoOtherReplica(t *testing.T) {
	p := newPod2("web", 30)
	p.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	w := newWorld(t, p)
	for _, ordinal := range []int{3, 29} {
		w.add(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("data-web-%d", ordinal), Labels: map[string]string{v1.Pod2Label: "web", v1.PodIndexLabel: fmt.Sprint(ordinal)},
		}})
	}
	w.catchUp()
	w.refuse = refusing("create persistentvolumeclaims", quota)
	calls, _ := w.sync(KindPod2, "web")
	var created []string
	for line := range strings.Lines(calls) {
		if strings.HasPrefix(line, "create pods") {
			created = append(created, strings.TrimSpace(line))
		}
	}
	same(t, strings.Join(created, "\n"), "create pods web-3\ncreate pods web-29")
	same(t, readyOf(w), "FailedCreate: exceeded quota")
}

// Two of three replicas were lost while an injector's webhook is down.
func TestAFailureThatLastsIsTold(t *testing.T) {
	w := newWorld(t, newPod2("web", 3), replica("web-0"))
	w.refuse = refusing("create pods", refusal(500, metav1.StatusReasonInternalError, "failed calling webhook"))
	_, _ = w.sync(KindPod2, "web")
	if p := stored[*v1.Pod2](w, "web"); p.Status.Replicas != 1 {
		t.Errorf("%d replicas are reported at once, want 1", p.Status.Replicas)
	}
	w.clock.SetTime(now.Add(lasting))
	w.catchUp()
	calls, _ := w.sync(KindPod2, "web")
	same(t, readyOf(w), "FailedCreate: failed calling webhook")
	if !strings.Contains(calls, "event on web: Warning FailedCreate: failed calling webhook") {
		t.Errorf("no event:\n%s", calls)
	}
}

// A successful sync in between restarts the count.
func TestAFailureThatEndedIsForgotten(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	down := refusing("create pods", refusal(500, metav1.StatusReasonInternalError, "failed calling webhook"))
	w.refuse = down
	_, _ = w.sync(KindPod2, "web")
	w.refuse = nil
	w.catchUp()
	if _, err := w.sync(KindPod2, "web"); err != nil {
		t.Fatal(err)
	}
	w.remove(podOf(w, "web-0"))
	w.catchUp()
	w.clock.SetTime(now.Add(lasting))
	w.refuse = down
	_, _ = w.sync(KindPod2, "web")
	same(t, readyOf(w), "PodsNotReady: web-0 does not exist yet")
}

// A policy forbids the controller to write the Pod2, including its record of failures.
func TestAPodThatEndedStaysWhereThatCannotBeRecorded(t *testing.T) {
	w := newWorld(t, failing()...)
	w.refuse = refusing("patch pod2s ", refusal(422, metav1.StatusReasonInvalid, "denied by a policy"))
	calls, _ := w.sync(KindPod2, "web")
	same(t, onlyWrites(calls), "patch pod2s web uid=uid-of-web rv=101 -> Invalid\ncreate pods web-1\npatch pod2s/status web uid=uid-of-web rv=101")
	same(t, readyOf(w), "FailedUpdate: denied by a policy")
}

// The revision of a pod is stored before the pod is created. Pods of an existing revision
// still start.
func TestWithoutARevisionNothingIsUpdated(t *testing.T) {
	p := newPod2("web", 2)
	w := newWorld(t, p, replica("web-0"))
	p = p.DeepCopy()
	p.Spec.Template.Spec.Containers[0].Image = "other"
	w.change(p)
	w.catchUp()
	w.refuse = refusing("create controllerrevisions", quota)
	calls, _ := w.sync(KindPod2, "web")
	if strings.Contains(calls, "pods web") {
		t.Errorf("pods are written:\n%s", calls)
	}
}

// down is the error of an API server whose webhook does not respond.
var down = refusal(500, metav1.StatusReasonInternalError, "failed calling webhook")

// Every kind reports a failure that lasts, in its condition with its reason.
func TestAFailureThatLastsIsToldOfEveryKind(t *testing.T) {
	for _, row := range []struct {
		refused string
		key     Key
		objects []runtime.Object
		said    func(*world) string
		want    string
	}{
		{"create addressblocks", blue, crowded(), saidByNetwork(v1.ConditionReady), "False FailedWrite: failed calling webhook"},
		{"create vnis", Key{KindMultus, ns, "blue"}, []runtime.Object{newNetwork("blue told")}, saidByNetwork(v1.ConditionAttachable), "False FailedWrite: failed calling webhook"},
		{"create services", Key{KindDNS, ns, "web"}, []runtime.Object{newPod2("web", 1, "blue"), newPod(named0)}, func(w *world) string {
			return said(stored[*v1.Pod2](w, "web").Status.Conditions, v1.ConditionDNSPublished)
		}, "False FailedCreate: failed calling webhook"},
		{"create cronjobs", Key{KindCronTab, ns, "ct"}, []runtime.Object{newCronTab(false)}, func(w *world) string {
			return said(stored[*stablev1.CronTab](w, "ct").Status.Conditions, stablev1.ConditionReady)
		}, "False FailedCreate: failed calling webhook"},
		{"patch pods", podA, bound(), func(w *world) string {
			for _, c := range podOf(w, "a").Status.Conditions {
				return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
			}
			return ""
		}, "False FailedPublish: its addresses are bound but could not be written into the pod: failed calling webhook"},
	} {
		t.Run(row.key.Kind, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			w.refuse = refusing(row.refused+" ", down)
			w.syncWoken(row.key)
			if got := row.said(w); strings.Contains(got, "webhook") {
				t.Errorf("reported at once: %s", got)
			}
			w.clock.SetTime(now.Add(lasting))
			w.catchUp()
			w.syncWoken(row.key)
			same(t, row.said(w), row.want)
		})
	}
}

func bound() []runtime.Object {
	return []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue")}
}

func said(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
	return ""
}

func saidByNetwork(kind string) func(*world) string {
	return func(w *world) string { return said(stored[*v1.Network](w, "blue").Status.Conditions, kind) }
}

// A policy forbids the finalizer: no address is bound, and the addresses of terminated
// pods are released.
func TestWithoutTheFinalizerNothingIsBound(t *testing.T) {
	w := newWorld(t, newNetwork("blue unprotected"), newBlock("blue", "10.1.0.2 gone Bound"), newPod("a gated on=blue"))
	w.refuse = refusing("patch networks ", refusal(422, metav1.StatusReasonInvalid, "denied by a policy"))
	_, _ = w.sync(KindNetwork, "blue")
	for _, e := range stored[*v1.AddressBlock](w, "blue-10.1.0.0").Spec.Entries {
		if e.Pod == "a" {
			t.Errorf("%s is bound to a", e.Address)
		}
	}
	same(t, saidByNetwork(v1.ConditionReady)(w), "False FailedWrite: denied by a policy")
}

// The annotations of the pod are too large, or a policy forbids the annotation of Multus.
func TestAPublicationThatIsRefusedIsToldInThePod(t *testing.T) {
	w := newWorld(t, bound()...)
	w.refuse = refusing("patch pods ", refusal(422, metav1.StatusReasonInvalid, "metadata.annotations: Too long"))
	calls, _ := w.sync(KindPod, "a")
	same(t, calls, `
patch pods a uid=uid-of-a rv=103 -> Invalid
patch pods/status a uid=uid-of-a
event on a: Warning FailedPublish: its addresses are bound but could not be written into the pod: metadata.annotations: Too long`)
}

// Once the addresses can be published, the pod reports that it waits no more.
func TestAPublicationThatSucceedsIsToldToo(t *testing.T) {
	w := newWorld(t, bound()...)
	w.refuse = refusing("patch pods ", refusal(422, metav1.StatusReasonInvalid, "metadata.annotations: Too long"))
	_, _ = w.sync(KindPod, "a")
	w.refuse = nil
	for range 2 {
		w.catchUp()
		if _, err := w.sync(KindPod, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if c := podOf(w, "a").Status.Conditions[0]; c.Status != corev1.ConditionTrue {
		t.Errorf("%s %s", c.Status, c.Reason)
	}
}
