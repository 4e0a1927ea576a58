//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
)

// gated adds the label and the gate to the manifest of a workload, as 30-admission-policy.yaml adds them to its pods.
func gated(manifest string) string {
	return strings.NewReplacer("labels: {app: ", `labels: {samplecrd.k8s.io/managed: "true", app: `,
		"spec: {containers:", "spec: {schedulingGates: [{name: samplecrd.k8s.io/addresses}], containers:").Replace(manifest)
}

// gatesAreRequired waits until the API server refuses a pod that would run without addresses for ever.
func gatesAreRequired(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "pod2-pods is in force", func(ctx context.Context) (string, error) {
		out, err := kubectlWith(ctx, workloadPod("probe", "blue"), "create", "-n", namespace, "--dry-run=server", "-f", "-")
		if err != nil && strings.Contains(out, "pod2-pods") && strings.Contains(out, "needs the label") {
			return "", nil
		}
		return "the answer is " + out, nil
	})
}
