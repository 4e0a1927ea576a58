//go:build integration

package integration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// A pod that asks for addresses gets the label and the gate that it lacks. Other pods stay as they are.
func TestPolicyAddsLabelAndGate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admissionPolicy(t, ns)
	const managed, gate = `labels: {samplecrd.k8s.io/managed: "true"}`, `schedulingGates: [{name: samplecrd.k8s.io/addresses}]`
	for _, c := range []struct{ name, metadata, spec, want string }{
		{"it asks for nothing", "", "", "[]"},
		{"it asks", "annotations: {samplecrd.k8s.io/networks: blue}", "", "true [samplecrd.k8s.io/addresses]"},
		{"it has another gate", "annotations: {samplecrd.k8s.io/networks: blue}", "schedulingGates: [{name: example.com/hold}]", "true [samplecrd.k8s.io/addresses example.com/hold]"},
		{"it has the label", "annotations: {samplecrd.k8s.io/networks: blue}, " + managed, "", "true [samplecrd.k8s.io/addresses]"},
		{"it has the gate", "annotations: {samplecrd.k8s.io/networks: blue}", gate, "true [samplecrd.k8s.io/addresses]"},
		{"it has the gate alone", "", gate, "true [samplecrd.k8s.io/addresses]"},
		{"it is from a backup", `annotations: {samplecrd.k8s.io/addresses: "{}"}`, "", "true [samplecrd.k8s.io/addresses]"},
		{"it has a node", "annotations: {samplecrd.k8s.io/networks: blue}", "nodeName: node-000000", "true []"},
		{"it is a mirror pod", "annotations: {samplecrd.k8s.io/networks: blue, kubernetes.io/config.mirror: x}", "nodeName: node-000000", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod, err := dryRun(t.Context(), ns, fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: p, %s}
spec: {%s, containers: [{name: c, image: registry.k8s.io/pause:3.10}]}
`, cmp.Or(c.metadata, "annotations: {}"), cmp.Or(c.spec, "restartPolicy: Always")))
			if err != nil {
				t.Fatal(err)
			}
			gates := []string{}
			for _, g := range pod.Spec.SchedulingGates {
				gates = append(gates, g.Name)
			}
			slices.SortFunc(gates, func(a, b string) int { return strings.Compare(b, a) })
			if got := strings.TrimSpace(fmt.Sprint(pod.Labels["samplecrd.k8s.io/managed"], " ", gates)); got != c.want {
				t.Errorf("label and gates are %s, want %s", got, c.want)
			}
		})
	}
}
