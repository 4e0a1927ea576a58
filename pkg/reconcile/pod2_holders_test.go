package reconcile

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

func wantsAddresses(p *v1.Pod2) *v1.Pod2 {
	p.Spec.Networks[0].Addresses = []v1.Address{"10.1.0.9"}
	return p
}

func complete(p *v1.Pod2) *v1.Pod2 {
	p.Status.Conditions = []metav1.Condition{{Type: v1.ConditionProgressing, Reason: pod2.ReasonComplete}}
	return p
}

// A serving replica is not deleted for an address that another pod holds.
func TestHoldersAreObserved(t *testing.T) {
	p := wantsAddresses(newPod2("web", 1, "blue"))
	for _, row := range []struct{ entry, want string }{
		{"10.1.0.9 x Bound", ""},
		{"10.1.0.8 x Bound", "delete pods web-0"},
	} {
		w := newWorld(t, p, newBlock("blue", row.entry), newPod("web-0 on=blue phase=Running of=Pod2/web label=web"))
		calls, err := w.sync(KindPod2, "web")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(calls, "delete pods web-0") != (row.want != "") {
			t.Errorf("with entry %s:\n%s", row.entry, calls)
		}
	}
}
