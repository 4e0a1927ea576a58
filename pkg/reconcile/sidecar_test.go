package reconcile

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
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
		"False Refused: the API server does not add generation 2 of the Sidecar to pods: apply artifacts/33-sidecars.yaml, and label the namespace: kubectl label namespace "+ns+" samplecrd.k8s.io/sidecars=enabled")
}

func TestPodsWakeTheirSidecars(t *testing.T) {
	w := newWorld(t)
	pod := newPod("a")
	pod.Annotations = map[string]string{v1.SidecarsAnnotation: "logs=1/0/0/1,mesh=4/1/0/1"}
	same(t, w.keysFor(pod), "Sidecar logs, Sidecar mesh")
}
