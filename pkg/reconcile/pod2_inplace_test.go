package reconcile

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

// running is the replica web-0 of a template with another image and another CPU request.
func running(w *world, cpu string) { runningReplicas(w, cpu, 1) }

func runningReplicas(w *world, cpu string, replicas int32) {
	old := newPod2("web", replicas)
	app := &old.Spec.Template.Spec.Containers[0]
	app.Image, app.Resources.Requests = "old:1", corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")}
	revision := pod2.Diff(pod2.State{Pod2: old}).CreateRevision
	w.add(revision)
	for _, creation := range pod2.Diff(pod2.State{Pod2: old}).Create {
		pod := creation.Pod()
		pod.UID, pod.Status.Phase = types.UID("uid-of-"+pod.Name), corev1.PodRunning
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = apiresource.MustParse(cpu)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: app.Name, ContainerID: "id-1", Resources: pod.Spec.Containers[0].Resources.DeepCopy()}}
		w.add(pod)
	}
	w.catchUp()
}

func withCPU(cpu string) *v1.Pod2 {
	p := newPod2("web", 1)
	p.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse(cpu)}
	return p
}

func TestInPlaceWrites(t *testing.T) {
	for _, row := range []struct{ name, cpu, want string }{
		{"resources first", "1", "patch pods web-0 uid=uid-of-web-0 rv=103\npatch pods/resize web-0 uid=uid-of-web-0 rv=104\npatch pod2s/status web uid=uid-of-web rv=101"},
		{"then the rest", "2", "patch pods web-0 uid=uid-of-web-0 rv=103\npatch pod2s/status web uid=uid-of-web rv=101"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, withCPU("2"))
			running(w, row.cpu)
			calls, err := w.sync(KindPod2, "web")
			if err != nil {
				t.Fatal(err)
			}
			same(t, withoutEvents(calls), row.want)
		})
	}
}

// The pod after the patch, with containers merged by name.
func TestInPlacePatchOfTheImage(t *testing.T) {
	w := newWorld(t, withCPU("2"))
	running(w, "2")
	if _, err := w.sync(KindPod2, "web"); err != nil {
		t.Fatal(err)
	}
	pod := podOf(w, "web-0")
	want := withCPU("2")
	c := pod.Spec.Containers[0]
	if c.Image != want.Spec.Template.Spec.Containers[0].Image || len(pod.Spec.Containers) != 1 || c.Resources.Requests.Cpu().String() != "2" {
		t.Errorf("the container is %+v", c)
	}
	same(t, pod.Labels[v1.PodTemplateHashLabel]+" "+pod.Annotations[v1.InPlaceAnnotation], pod2.RevisionHash(want)+` {"containers":{"`+c.Name+`":{"id":"id-1","image":"old:1"}}}`)
}

// The controller asks only once for a resize that the API server calls invalid. It
// recreates the pod as soon as the replica can be spared, and then forgets the refusal.
func TestInvalidResize(t *testing.T) {
	w := newWorld(t, withCPU("2"))
	running(w, "1")
	w.refuse = func(call string) error {
		if strings.HasPrefix(call, "patch pods/resize") {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web-0", field.ErrorList{field.Invalid(field.NewPath("spec"), "", "Pod QOS Class may not change as a result of resizing")})
		}
		return nil
	}
	calls, err := w.sync(KindPod2, "web")
	if !errors.Is(err, ErrStale) {
		t.Errorf("the sync is not repeated at once: %v", err)
	}
	w.catchUp()
	again, err := w.sync(KindPod2, "web")
	if err != nil {
		t.Error(err)
	}
	same(t, withoutEvents(calls)+"\n"+withoutEvents(again), `patch pods web-0 uid=uid-of-web-0 rv=103
patch pods/resize web-0 uid=uid-of-web-0 rv=104 -> Invalid
delete pods web-0 uid=uid-of-web-0 rv=104
patch pod2s/status web uid=uid-of-web rv=101`)
	w.catchUp()
	if _, err := w.sync(KindPod2, "web"); err != nil || len(w.r.kinds.pod2.refusedResizes.byKey) > 0 {
		t.Errorf("remembered still: %v, %v", w.r.kinds.pod2.refusedResizes.byKey, err)
	}
}

// One sync asks for all resizes; the next one decides with the answers.
func TestManyInvalidResizesTakeOneSync(t *testing.T) {
	const replicas = 40 // more than atOnce
	p := withCPU("2")
	p.Spec.Replicas = ptr.To[int32](replicas)
	w := newWorld(t, p)
	runningReplicas(w, "1", replicas)
	w.refuse = func(call string) error {
		if strings.HasPrefix(call, "patch pods/resize") {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil)
		}
		return nil
	}
	calls, err := w.sync(KindPod2, "web")
	if n := strings.Count(calls, "-> Invalid"); n != replicas || !errors.Is(err, ErrStale) {
		t.Errorf("%d of %d were asked for, %v", n, replicas, err)
	}
	w.catchUp()
	again, err := w.sync(KindPod2, "web")
	if strings.Contains(again, "resize") || !strings.Contains(again, "delete pods") || err != nil {
		t.Errorf("%v\n%s", err, again)
	}
}

// A problem of one pod that a user must fix is reported and affects no other pod.
func TestARefusedChangeHoldsUpNothing(t *testing.T) {
	for _, row := range []struct{ name, cpu, refused, want string }{
		{"resize", "1", "patch pods/resize", "patch pods web-0 uid=uid-of-web-0 rv=103\npatch pods/resize web-0 uid=uid-of-web-0 rv=104 -> Forbidden"},
		{"in place", "2", "patch pods", "patch pods web-0 uid=uid-of-web-0 rv=103 -> Forbidden"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := withCPU("2")
			p.Spec.Replicas = ptr.To[int32](2)
			w := newWorld(t, p)
			running(w, row.cpu)
			w.refuse = refusing(row.refused, quota)
			calls, err := w.sync(KindPod2, "web")
			if err == nil {
				t.Error("there is no retry")
			}
			same(t, onlyWrites(calls), row.want+"\ncreate pods web-1\npatch pod2s/status web uid=uid-of-web rv=101")
			same(t, readyOf(w), "FailedUpdate: exceeded quota")
		})
	}
}

// The condition has the reason of the first failure.
func TestAllRefusalsAreTold(t *testing.T) {
	p := withCPU("2")
	p.Spec.Replicas = ptr.To[int32](2)
	w := newWorld(t, p)
	running(w, "2")
	w.refuse = func(call string) error {
		return errors.Join(refusing("patch pods", refusal(403, metav1.StatusReasonForbidden, "policy: hands off"))(call), refusing("create pods", quota)(call))
	}
	if _, err := w.sync(KindPod2, "web"); err == nil {
		t.Error("there is no retry")
	}
	same(t, readyOf(w), "FailedUpdate: policy: hands off; exceeded quota")
}
