//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kube-controller-manager checks the types in the validations of those policies that name a
// version of a kind, and `kubectl describe` shows its warnings. It checks neither variables nor
// matchConditions.
func TestPoliciesHaveNoTypeWarnings(t *testing.T) {
	t.Parallel()
	validationPolicies(t, newNamespace(t))
	var warnings []string
	eventually(t, "the policies are checked", func(ctx context.Context) (string, error) {
		policies, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pod2-controller"})
		if err != nil {
			return "", err
		}
		if len(policies.Items) == 0 {
			return "no policy has the label", nil
		}
		warnings = nil
		for _, p := range policies.Items {
			if p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
				return fmt.Sprintf("generation %d of %s is not checked yet", p.Generation, p.Name), nil
			}
			for _, w := range p.Status.TypeChecking.ExpressionWarnings {
				warnings = append(warnings, fmt.Sprintf("%s, %s: %s", p.Name, w.FieldRef, w.Warning))
			}
		}
		return "", nil
	})
	if len(warnings) > 0 {
		t.Error(strings.Join(warnings, "\n"))
	}
}
