package multus

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// After a failed write, the status of a plan is written only if it reports no write.
func TestWhatIsToldThoughAWriteFailed(t *testing.T) {
	status := func(attachable metav1.ConditionStatus) *v1.NetworkStatus {
		return &v1.NetworkStatus{Conditions: []metav1.Condition{{Type: v1.ConditionAttachable, Status: attachable}}}
	}
	for _, row := range []struct {
		name string
		plan Plan
		want bool
	}{
		{"a name that is taken", Plan{Status: status(metav1.ConditionFalse)}, true},
		{"nothing new", Plan{}, false},
		{"that pods can be attached", Plan{Status: status(metav1.ConditionTrue)}, false},
		{"a number that was to be claimed", Plan{Status: status(metav1.ConditionFalse), Claim: &v1.VNI{}}, false},
	} {
		if got, _ := row.plan.Observed(); (got != nil) != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}
