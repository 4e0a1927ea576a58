package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// massDeletion has so many pods of a Network go, some each second, and returns how many pods were
// read in lists and by gets before their addresses were released.
func massDeletion(t *testing.T, pods, perSecond int) (listed, got int) {
	t.Helper()
	w := newWorld(t, crowd(pods)...)
	w.remove(newPod("waiting"))
	w.pageSize = podsPerPage
	w.clients.Kube.(*kubefake.Clientset).PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		_, obj, err := w.react(w.kube)(action)
		if list, ok := obj.(*corev1.PodList); ok {
			listed += len(list.Items)
		}
		return true, obj, err
	})
	for i := 0; i < pods; {
		for range perSecond {
			w.remove(newPod(fmt.Sprintf("pod-%05d", i)))
			i++
		}
		w.catchUp()
		w.later(time.Second)
		calls, err := w.sync(KindNetwork, "blue")
		if err != nil {
			t.Fatal(err)
		}
		got += strings.Count(calls, "get pods ")
		w.catchUp()
	}
	return listed, got
}

// A get costs what podsPerGet listed pods cost. The first page tells how many there are.
func TestMassDeletionCostsEachPodTheSame(t *testing.T) {
	const pods, perSecond = 3000, 50
	listed, got := massDeletion(t, pods, perSecond)
	t.Logf("%d pods were listed, %d were got", listed, got)
	if cost := listed + podsPerGet*got; cost > 2*podsPerGet*pods {
		t.Errorf("%d pods were listed and %d got to confirm that %d are gone: more than 2 gets each", listed, got, pods)
	}
}
