//go:build integration

package integration

import (
	"strings"
	"testing"
)

// The pod of a controller loses its managedFields with the gate, and later writes bring none back.
// Pods that somebody applies keep them.
func TestManagedFieldsAreClearedForControllers(t *testing.T) {
	ns := newNamespace(t)
	startController(t, ns)
	owned := func(name string) string {
		uid := run(t, ns, "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
		return strings.Replace(gatedPod(name, "blue"), "metadata:\n",
			"metadata:\n  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: "+uid+", controller: true}]\n", 1)
	}
	run(t, ns, "create", "configmap", "owner")
	create(t, ns, gatedPod("alone", "blue")+owned("created")+network("blue", "{cidr: 10.1.0.0/24}"))
	if _, err := kubectlWith(t.Context(), owned("applied"), "apply", "-n", ns, "--server-side", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	waitReady(t, ns, "pod/alone", "pod/created", "pod/applied")
	run(t, ns, "label", "pods", "--all", "later=write")
	got := ""
	for _, pod := range []string{"alone", "created", "applied"} {
		managers := run(t, ns, "get", "pod", pod, "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].operation}")
		kept := "none"
		for _, operation := range []string{"Update", "Apply"} { // how the pod was created
			if strings.Contains(managers, operation) {
				kept = operation
			}
		}
		got += pod + ": " + kept + "\n"
	}
	if want := "alone: Update\ncreated: none\napplied: Apply\n"; got != want {
		t.Errorf("managedFields:\n%swant:\n%s", got, want)
	}
}
