package docs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// schema is the part of a CRD that `kubectl explain` shows.
type schema struct {
	Description  string
	Default      any
	Properties   map[string]schema
	Items        *schema
	XValidations []struct{ Rule string } `json:"x-kubernetes-validations"`
}

// `kubectl explain` describes fields as Kubernetes does: a description begins with the name
// of the field, and says its default and whether it is immutable. Fields of Kubernetes' own
// types are left out.
func TestFieldsAreDescribed(t *testing.T) {
	files, err := filepath.Glob("../crd/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in crd, %v", len(files), err)
	}
	described := 0
	for _, file := range files {
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(readText(t, file)), &crd); err != nil {
			t.Fatal(err)
		}
		var describe func(path string, fields map[string]schema)
		describe = func(path string, fields map[string]schema) {
			for name, field := range fields {
				described++
				path, text := path+"."+name, strings.Join(strings.Fields(field.Description), " ")
				for what, bad := range map[string]bool{
					"begin with " + name:              !strings.HasPrefix(text, name+" "),
					"say the default":                 field.Default != nil && !strings.Contains(text, "Defaults to "),
					"say that the field is immutable": !strings.Contains(text, "is immutable") && slices.ContainsFunc(field.XValidations, func(v struct{ Rule string }) bool { return v.Rule == "self == oldSelf" }),
				} {
					if bad {
						t.Errorf("%s: the description does not %s: %s", path, what, text)
					}
				}
				if slices.Contains([]string{"conditions", "containers", "env", "initContainers", "template", "volumeClaimTemplates", "volumeMounts", "volumes"}, name) {
					continue
				}
				describe(path, field.Properties)
				if field.Items != nil {
					describe(path, field.Items.Properties)
				}
			}
		}
		for _, version := range crd.Spec.Versions {
			fields := version.Schema.OpenAPIV3Schema.Properties
			for _, of := range []string{"apiVersion", "kind", "metadata"} {
				delete(fields, of)
			}
			describe(crd.Spec.Names.Kind, fields)
		}
	}
	if described < 100 {
		t.Errorf("found only %d fields", described)
	}
}
