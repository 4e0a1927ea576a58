package audit

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const recorded = `{"verb":"list","userAgent":"pod2-controller/devel","objectRef":{"resource":"pods","namespace":"a","apiVersion":"v1"}}
{"verb":"patch","userAgent":"pod2-controller/devel","objectRef":{"resource":"pods","subresource":"status","namespace":"a","name":"p","apiVersion":"v1"}}
{"verb":"update","userAgent":"pod2-controller/devel","objectRef":{"apiGroup":"coordination.k8s.io","resource":"leases","namespace":"pod2-system","name":"pod2-controller"}}
{"verb":"get","userAgent":"pod2-controller/devel","requestURI":"/apis/samplecrd.k8s.io/v1"}
{"verb":"delete","userAgent":"kubectl/v1.36.3","objectRef":{"resource":"pods","namespace":"a","name":"p"}}
{"verb":"delete","userAgent":"pod2-controller/devel","objectRef":{"resou`

const roles = `kind: ClusterRole
metadata: {name: c}
rules:
- {apiGroups: [""], resources: [pods, pods/status], verbs: [list, patch]}
- {apiGroups: [samplecrd.k8s.io], resources: [networks/finalizers], verbs: [update]}
- {apiGroups: [samplecrd.k8s.io], resources: [addressblocks], verbs: [bind]}
---
kind: Role
metadata: {name: c, namespace: pod2-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [pod2-controller], verbs: [update, get]}
---
kind: ClusterRole
metadata: {name: other}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
`

func compare(t *testing.T, log, manifest string) (refused, unused string) {
	t.Helper()
	calls, err := Calls(strings.NewReader(log), "pod2-controller/")
	if err != nil {
		t.Fatal(err)
	}
	grants, err := Grants(strings.NewReader(manifest), "c")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(Refused(calls, grants), ", "), strings.Join(Unused(calls, grants), ", ")
}

func TestCompare(t *testing.T) {
	for _, c := range []struct{ name, manifest, refused, unused string }{
		{"a role that allows more", roles, "", "get coordination.k8s.io/leases, list pods/status, patch pods"},
		{"a role that allows less", strings.Replace(roles, "pods/status]", "x]", 1), "patch pods/status", "get coordination.k8s.io/leases, list x, patch pods, patch x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused, unused := compare(t, recorded, c.manifest)
			if refused != c.refused {
				t.Errorf("refused: %s\nwant     %s", refused, c.refused)
			}
			if unused != c.unused {
				t.Errorf("unused: %s\nwant    %s", unused, c.unused)
			}
		})
	}
}

// RBAC grants no more than is needed. Controller and agent read the addresses of Nodes, and
// change no Node. The agent changes nothing at all.
func TestRolesGrantNothingWide(t *testing.T) {
	never := []string{"secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "pods/exec", "pods/binding"}
	for _, c := range []struct {
		manifest, name string
		verbs          []string // the only ones, if not nil
	}{
		{"10-rbac.yaml", "pod2-controller", nil},
		{"agent/daemonset.yaml", "pod2-agent", []string{"list", "watch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := os.Open("../../../artifacts/" + c.manifest)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			grants, err := Grants(file, c.name)
			if err != nil || len(grants) == 0 {
				t.Fatalf("%d grants, %v", len(grants), err)
			}
			for g := range grants {
				wide := strings.Contains(g.Verb+g.Group+g.Resource, "*") ||
					slices.Contains([]string{"escalate", "impersonate", "deletecollection"}, g.Verb) ||
					g.Verb == "bind" && g.Resource != "addressblocks" ||
					slices.Contains(never, g.Resource) ||
					strings.HasPrefix(g.Resource, "nodes") && g.Verb != "list" && g.Verb != "watch" ||
					g.Group == rbacGroup
				if wide || c.verbs != nil && !slices.Contains(c.verbs, g.Verb) {
					t.Errorf("the role allows %s", g)
				}
			}
		})
	}
}

const rbacGroup = "rbac.authorization.k8s.io"
