package sim

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// enoughServe is a world in which both pods of a Pod2 serve, and one must. A run watches.
func enoughServe(t *testing.T) *World {
	t.Helper()
	s := &syncing{t: t, w: &World{Cluster: NewCluster()}}
	s.w.Create(pod2("replicas: 2, minReadySeconds: 60"))
	owner := apiserver.List[*v1.Pod2](s.w.Server, "pod2s")[0]
	for _, name := range []string{"web-0", "web-1"} {
		s.w.Create("{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", ownerReferences: [{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, name: web, uid: " +
			string(owner.UID) + ", controller: true}]}, spec: {" + container + "}}")
		kubelet(s.w, name)
		kubelet(s.w, name)
		readySince(s.w, name, time.Hour)
	}
	s.p = s.w.NewProcess("run 1")
	for _, watched := range []string{"/apis/samplecrd.k8s.io/v1/namespaces/default/pod2s", "/api/v1/namespaces/default/pods"} {
		_, _, _ = s.w.Answer(s.call(http.MethodGet, watched+"?watch=true&sendInitialEvents=true", "")) //nolint:bodyclose // the watch continues
	}
	s.w.Watch(NewPromises())
	return s.w
}

func podNamed(w *World, name string) *corev1.Pod {
	return w.Get(apiserver.ResourceNamed("pods"), apiserver.Namespace, name).(*corev1.Pod)
}

func kubelet(w *World, name string) { w.stepPod(podNamed(w, name)) }

func readySince(w *World, name string, age time.Duration) {
	apiserver.Edit(w.Server, "kubelet", podNamed(w, name), func(pod *corev1.Pod) {
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime.Time = time.Now().Add(-age)
		}
		for i := range pod.Status.ContainerStatuses {
			if running := pod.Status.ContainerStatuses[i].State.Running; running != nil {
				running.StartedAt.Time = time.Now().Add(-age)
			}
		}
	})
}

func deletes(t *testing.T, w *World, by, name string) {
	t.Helper()
	if _, err := w.Server.Delete(by, apiserver.ResourceNamed("pods"), podNamed(w, name), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func changes(w *World, by, name string) {
	apiserver.Edit(w.Server, by, podNamed(w, name), func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "two" })
}

// S5, and the cases to which it does not apply.
func TestPromiseThatEnoughServe(t *testing.T) {
	const run = "run 1"
	for _, test := range []struct {
		name, want string
		do         func(t *testing.T, w *World)
	}{
		{"one deleted", "", func(t *testing.T, w *World) { deletes(t, w, run, "web-1") }},
		{"both deleted", "S5: web-0 is taken away: 0 other pods of web are available, and 1 must be", func(t *testing.T, w *World) {
			deletes(t, w, run, "web-1")
			deletes(t, w, run, "web-0")
		}},
		{"the other is gone and not yet recreated", "S5: web-0 is taken away", func(t *testing.T, w *World) {
			deletes(t, w, run, "web-1")
			kubelet(w, "web-1")
			deletes(t, w, run, "web-0")
		}},
		{"one deleted, one changed in place", "S5: web-0 is taken away", func(t *testing.T, w *World) {
			deletes(t, w, run, "web-1")
			changes(w, run, "web-0")
		}},
		{"both changed in place", "S5: web-0 is taken away", func(_ *testing.T, w *World) {
			changes(w, run, "web-1")
			changes(w, run, "web-0")
		}},
		{"one after the other", "", func(_ *testing.T, w *World) {
			changes(w, run, "web-1")
			kubelet(w, "web-1")
			readySince(w, "web-1", time.Hour)
			changes(w, run, "web-0")
		}},
		{"a pod that does not serve", "", func(t *testing.T, w *World) {
			deletes(t, w, run, "web-1")
			apiserver.Edit(w.Server, "kubelet", podNamed(w, "web-0"), func(pod *corev1.Pod) { setCondition(pod, corev1.PodReady, "ContainersNotReady") })
			deletes(t, w, run, "web-0")
		}},
		{"one by a user, unknown to the run", "", func(t *testing.T, w *World) {
			deletes(t, w, "user", "web-1")
			deletes(t, w, run, "web-0")
		}},
		{"both by users", "", func(t *testing.T, w *World) {
			deletes(t, w, "user", "web-1")
			deletes(t, w, "user", "web-0")
		}},
		{"with another writer", "", func(t *testing.T, w *World) {
			w.NewProcess("run 2")
			deletes(t, w, "run 2", "web-1")
			deletes(t, w, run, "web-0")
		}},
		{"a young pod, and two must be available", "S5: web-1, which is Ready, is updated: 1 other pods of web are available, and 2 must be", func(t *testing.T, w *World) {
			readySince(w, "web-1", time.Second)
			deletes(t, w, run, "web-1")
		}},
		{"a young pod that is scaled down", "", func(t *testing.T, w *World) {
			w.Patch("pod2s", "web", scale(1))
			readySince(w, "web-1", time.Second)
			deletes(t, w, run, "web-1")
		}},
		{"scaled down", "", func(t *testing.T, w *World) {
			w.Patch("pod2s", "web", scale(0))
			deletes(t, w, run, "web-1")
			deletes(t, w, run, "web-0")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := enoughServe(t)
			test.do(t, w)
			if got := strings.Join(w.Faults(), "\n"); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
