package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/apiserver"
)

func newSidecar(generation int64) *v1.Sidecar {
	return &v1.Sidecar{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mesh", UID: "uid-of-mesh", Generation: generation},
		Spec:       v1.SidecarSpec{Selector: map[string]string{"app": "web"}, WhenNotReady: v1.RefusePods},
	}
}

// adds answers as the policy would with this generation.
func adds(record string) func(runtime.Object) {
	return func(obj runtime.Object) {
		if pod, ok := obj.(*corev1.Pod); ok {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.SidecarsAnnotation, record)
		}
	}
}

// A generation is used once the dry run shows it. The dry run stores no pod.
func TestADryRunComesBeforeAGeneration(t *testing.T) {
	w := newWorld(t, newSidecar(1))
	w.answer = adds("mesh=1/0/0/0")
	same(t, w.syncText(KindSidecar, "mesh"), "create pods mesh-sidecar-probe\npatch sidecars/status mesh uid=uid-of-mesh rv=101")
	same(t, fmt.Sprint(stored[*v1.Sidecar](w, "mesh").Status.Injected.Generation, len(apiserver.List[*corev1.Pod](w.server, "pods"))), "1 0")
	w.catchUp()
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	same(t, w.syncText(KindSidecar, "mesh"), "")
}

// The API server may not have read the generation yet. The condition says so only if that
// lasts.
func TestAnOlderGenerationIsTriedAgain(t *testing.T) {
	w := newWorld(t, newSidecar(2))
	w.answer = adds("mesh=1/0/0/0")
	for range 2 {
		if _, err := w.r.Sync(t.Context(), Key{KindSidecar, ns, "mesh"}); err == nil {
			t.Fatal("the sync succeeds")
		}
		w.clock.SetTime(w.clock.Now().Add(lasting))
	}
	same(t, said(stored[*v1.Sidecar](w, "mesh").Status.Conditions, v1.ConditionReady),
		"False Refused: the API server does not add generation 2 of the Sidecar to pods: apply artifacts/33-sidecars.yaml (Kubernetes 1.36 or newer), and label the namespace: kubectl label namespace "+ns+" samplecrd.k8s.io/sidecars=enabled")
}

func TestPodsWakeTheirSidecars(t *testing.T) {
	w := newWorld(t)
	pod := newPod("a")
	pod.Annotations = map[string]string{v1.SidecarsAnnotation: "logs=1/0/0/1,mesh=4/1/0/1"}
	same(t, w.keysFor(pod), "Sidecar logs, Sidecar mesh")
}

// withProxy is a pod with generation 1 of a Sidecar whose generation 2 has another image,
// and that Sidecar.
func withProxy(text string) (*corev1.Pod, *v1.Sidecar) {
	s := newSidecar(2)
	s.Spec.InitContainers = []corev1.Container{{Name: "mesh", Image: "two", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	s.Status.Injected = &v1.SidecarGeneration{Generation: 2, InPlaceFrom: 1, Spec: s.Spec}
	pod := newPod(text)
	pod.UID = types.UID("uid-of-" + pod.Name)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.SidecarsAnnotation, "mesh=1/1/0/0")
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "mesh", Image: "one", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", ContainerID: "id-1", Ready: true}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod, s
}

// One patch with UID and resourceVersion has the image, the generation, and the container
// that restarts. It keeps the labels.
func TestTheImageOfASidecarReachesAPod(t *testing.T) {
	pod, s := withProxy("a phase=Running")
	w := newWorld(t, s, pod)
	same(t, w.syncText(KindSidecar, "mesh"), "patch pods a uid=uid-of-a rv=102\npatch sidecars/status mesh uid=uid-of-mesh rv=101")
	is := podOf(w, "a")
	same(t, fmt.Sprint(is.Spec.InitContainers[0].Image, " ", is.Spec.InitContainers[0].RestartPolicy != nil, " ", is.Annotations[v1.SidecarsAnnotation], " ", is.Annotations[v1.InPlaceAnnotation], " ", len(is.Labels) == len(pod.Labels)),
		`two true mesh=2/1/0/0 {"containers":{"mesh":{"id":"id-1","image":"one"}}} true`)
	w.catchUp()
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	same(t, w.syncText(KindSidecar, "mesh"), "patch sidecars/status mesh uid=uid-of-mesh rv=104")
}

// The sync of a Pod2 changes its replicas, within its own bounds.
func TestTheImageOfASidecarReachesAReplica(t *testing.T) {
	for _, row := range []struct {
		name, web1, want string
	}{
		{"all are available", "", "patch pods web-0 uid=uid-of-web-0 rv=104"},
		{"another is not", "phase=Pending", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPod2("web", 2)
			web0, s := withProxy("web-0 of=Pod2/web label=web phase=Running")
			web1 := newPod("web-1 of=Pod2/web label=web phase=Running " + row.web1)
			web1.UID = "uid-of-web-1"
			if row.web1 == "" {
				web1.Status.Conditions = web0.Status.Conditions
			}
			for _, pod := range []*corev1.Pod{web0, web1} {
				pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(p)
			}
			w := newWorld(t, s, p, web1, web0)
			same(t, withoutEvents(w.syncText(KindSidecar, "mesh")), "patch sidecars/status mesh uid=uid-of-mesh rv=101\nwakes Pod2 web")
			calls, err := w.sync(KindPod2, "web")
			if err != nil {
				t.Fatal(err)
			}
			got, _, _ := strings.Cut(withoutEvents(calls), "patch pod2s/status")
			same(t, strings.TrimSpace(got), row.want)
		})
	}
}

// A pod whose container has restarted without a gap in Ready wakes its Sidecars.
func TestARestartWakesASidecar(t *testing.T) {
	was, _ := withProxy("a phase=Running")
	was.Annotations[v1.InPlaceAnnotation] = `{"containers":{"mesh":{"id":"id-1","image":"zero"}}}`
	is := was.DeepCopy()
	is.Status.InitContainerStatuses[0].ContainerID = "id-2"
	if countedAlike(was, is) || !countedAlike(was, was.DeepCopy()) {
		t.Error("the restart wakes no Sidecar")
	}
}

// A refused update is a condition until the update succeeds. One event reports it.
func TestARefusedUpdateIsACondition(t *testing.T) {
	pod, s := withProxy("a phase=Running")
	w := newWorld(t, s, pod)
	answer := ""
	w.refuse = func(call string) error {
		if answer != "" && strings.HasPrefix(call, "patch pods a") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New(answer))
		}
		return nil
	}
	const refused = "False FailedUpdate: pods \"a\" is forbidden: "
	for _, row := range []struct{ answer, event, condition string }{
		{"no such registry", "no such registry", refused + "no such registry"},
		{"no such registry", "", refused + "no such registry"},
		{"no such tag", "no such tag", refused + "no such tag"},
		{"", "", ""},
	} {
		answer = row.answer
		got := w.syncText(KindSidecar, "mesh")
		_, event, _ := strings.Cut(got, `event on mesh: Warning FailedUpdate: pods "a" is forbidden: `)
		event, _, _ = strings.Cut(event, "\n")
		same(t, event, row.event)
		if strings.Contains(got, "patch sidecars/status") != (row.event != "" || row.answer == "") {
			t.Errorf("with the answer %q: %s", row.answer, got)
		}
		w.catchUp()
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		condition := ""
		if conditions := stored[*v1.Sidecar](w, "mesh").Status.Conditions; meta.FindStatusCondition(conditions, v1.ConditionUpdated) != nil {
			condition = said(conditions, v1.ConditionUpdated)
		}
		same(t, condition, row.condition)
	}
}

// An event about the status of a Sidecar follows its write.
func TestNoEventWithoutAStatus(t *testing.T) {
	pod, s := withProxy("a phase=Running")
	other := newSidecar(1)
	other.Name, other.Spec.InitContainers = "a", s.Spec.InitContainers
	other.Status.Injected = &v1.SidecarGeneration{Generation: 1, Spec: other.Spec}
	w := newWorld(t, s, other, pod)
	w.refuse = func(call string) error {
		if strings.HasPrefix(call, "patch pods a") {
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("it has changed"))
		}
		return nil
	}
	if got := w.syncText(KindSidecar, "mesh"); strings.Contains(got, "event") || strings.Contains(got, "sidecars/status") {
		t.Error(got)
	}
	w.refuse = nil
	w.catchUp()
	if got := w.syncText(KindSidecar, "mesh"); !strings.Contains(got, "event on mesh: Warning Conflict: Sidecar a has the container mesh too") {
		t.Error(got)
	}
}
