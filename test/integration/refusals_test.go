//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A refusal names the field, because a user fixes the named field.
func TestRefusalsNameTheField(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	network := func(spec string) string { return fmt.Sprintf(networkManifest, "net", spec) }
	pod2 := func(spec string) string { return fmt.Sprintf(pod2Manifest, "p", ", "+spec) }
	const cronTab = "apiVersion: stable.example.com/%s\nkind: CronTab\nmetadata: {name: %s}\nspec: {cronSpec: '* * * * *', image: a%s}\n"
	long := strings.Repeat("a", 58)
	for _, c := range []struct{ name, manifest, want string }{
		{"name of a Network", fmt.Sprintf(networkManifest, "a.b", `{cidr: 10.0.0.0/24}`), "metadata: Invalid value: the name of a Network"},
		{"name of a Pod2", fmt.Sprintf(pod2Manifest, long, ""), "metadata: Invalid value: the name of a Pod2"},
		{"name of a CronTab", fmt.Sprintf(cronTab, "v1", long, ""), "metadata: Invalid value: the name of a CronTab"},
		{"name of a CronTab v1beta1", fmt.Sprintf(cronTab, "v1beta1", long, ", replicas: 1"), "metadata: Invalid value: the name of a CronTab"},
		{"name of a VNI", "apiVersion: samplecrd.k8s.io/v1\nkind: VNI\nmetadata: {name: x1}\nspec: {network: {namespace: a, name: b, uid: c}}\n",
			"metadata: Invalid value: the name of a VNI"},
		{"gateway outside", network(`{cidr: 10.0.0.0/24, gateway: 10.0.1.1}`), "spec.gateway: Invalid value: gateway must be inside"},
		{"gateway is the network address", network(`{cidr: 10.0.0.0/24, gateway: 10.0.0.0}`), "spec.gateway: Invalid value: gateway must not be the network"},
		{"gateway is the broadcast address", network(`{cidr: 10.0.0.0/24, gateway: 10.0.0.255}`), "spec.gateway: Invalid value: gateway must not be the broadcast"},
		{"no config", network(`{cidr: 10.0.0.0/24, attachment: {type: CNI}}`), "spec.attachment.config: Invalid value: config is required if"},
		{"bounds of another strategy", pod2(`updateStrategy: {type: Recreate, rollingUpdate: {maxUnavailable: 1}}`),
			"spec.updateStrategy.rollingUpdate: Invalid value: rollingUpdate is allowed only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := refused(t, ns, c.manifest, "create", "-f", "-")
			if !strings.Contains(got, c.want) || strings.Contains(got, "<nil>") {
				t.Errorf("refused with\n%s\nwant %q in it, and no <nil>", got, c.want)
			}
		})
	}
}

// Without a field path, the API server calls the field of such a rule <nil>.
func TestRulesOfWholeObjectsHaveAFieldPath(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "crd", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Name   string
					Schema struct {
						OpenAPIV3Schema struct {
							Rules []struct{ FieldPath, Message string } `json:"x-kubernetes-validations"`
						}
					}
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil || len(crd.Spec.Versions) == 0 {
			t.Fatalf("%s has no versions: %v", file, err)
		}
		for _, version := range crd.Spec.Versions {
			for _, rule := range version.Schema.OpenAPIV3Schema.Rules {
				if rule.FieldPath == "" {
					t.Errorf("%s, %s: no fieldPath: %s", filepath.Base(file), version.Name, rule.Message)
				}
			}
		}
	}
}
