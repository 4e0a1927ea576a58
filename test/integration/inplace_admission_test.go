//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"
)

// mirrors lets admission replace the images of created pods by those of a mirror.
func mirrors(t *testing.T, namespace string) {
	t.Helper()
	needsMutation(t)
	name := "mirror-" + namespace
	create(t, "", fmt.Sprintf(`---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "replace", path: "/spec/containers/0/image", value: "mirror.example.com/" + object.spec.containers[0].image}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
`, name, namespace))
	t.Cleanup(func() {
		run(t, "", "delete", "mutatingadmissionpolicy/"+name, "mutatingadmissionpolicybinding/"+name)
	})
	eventually(t, "the policy is in force", func(context.Context) (string, error) {
		got, err := kubectl("-n", namespace, "run", "probe", "--image=a:1", "--dry-run=server", "-o", "jsonpath={.spec.containers[0].image}")
		if got != "mirror.example.com/a:1" {
			return "got " + got, err
		}
		return "", nil
	})
}

// A replica whose image admission changed is recreated for a new image, because admission
// would not see a change in place.
func TestImageThatAdmissionChanged(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	mirrors(t, ns)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 2`))
	waitReady(t, ns, "pod2/web")
	setImage(t, ns, "web", "registry.k8s.io/pause:3.11")
	const mirrored = "mirror.example.com/registry.k8s.io/pause:3.11"
	eventually(t, "both replicas have the image from the mirror", func(context.Context) (string, error) {
		got, err := kubectl("-n", ns, "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}")
		if got != mirrored+" "+mirrored {
			return "got " + got, err
		}
		return "", nil
	})
	waitReady(t, ns, "pod2/web")
}
