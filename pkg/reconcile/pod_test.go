package reconcile

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// The condition of a published pod has no old message from when the pod waited. A merge
// patch keeps absent fields.
func TestConditionOfAPodThatWaited(t *testing.T) {
	pod := newPod("a gated on=blue")
	pod.Status.Conditions = []corev1.PodCondition{{Type: v1.ConditionAddressesBound, Status: corev1.ConditionFalse, Reason: "NetworkNotFound", Message: "Network \"blue\" does not exist"}}
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), pod)
	for range 2 { // published, and the condition says so
		if _, err := w.sync(KindPod, "a"); err != nil {
			t.Fatal(err)
		}
		w.catchUp()
	}
	c := podOf(w, "a").Status.Conditions[0]
	same(t, fmt.Sprintf("%s %s %q", c.Status, c.Reason, c.Message), `True Published ""`)
}
