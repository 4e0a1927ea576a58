//go:build integration

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The tests' own kubectl commands act like kubectl. Both run the same commands on two
// namespaces with the same objects. They print the same, are refused with the same words,
// and leave the same objects.
func TestKubectlInProcess(t *testing.T) {
	t.Parallel()
	const objects = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: first, labels: {app: a}, annotations: {kept: "1"}}
data: {a: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}}
---
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: blue}
spec: {cidr: 10.0.0.0/24}
---
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: green}
spec: {cidr: 10.1.0.0/24}
`
	const mended = `apiVersion: v1
kind: ConfigMap
metadata: {name: third}
`
	own, binary := newNamespace(t), newNamespace(t)
	for _, c := range []struct{ stdin, args, refusal string }{
		{objects, "create -f -", ""},
		{objects + mended, "create -f -", "already exists"},
		{strings.Replace(mended, "metadata", "spec: {}\nmetadata", 1), "create -f -", `strict decoding error: unknown field "spec"`},
		{network("bad", "{cidr: 10.0.0.1/24}"), "create -f -", "must be canonical"},
		{network("dry", "{cidr: 10.0.0.0/24}"), "create --dry-run=server -f - -o jsonpath={.spec}", ""},
		{"", "get networks,configmaps -o name", ""},
		{"", "get cm -l app=a -o name", ""},
		{"", "get net --field-selector=metadata.name=green -o jsonpath={.items[*].spec.cidr}", ""},
		{"", "get networks.v1.samplecrd.k8s.io blue -o jsonpath={.spec}", ""},
		{"", "get configmap/first deploy/web -o jsonpath={.items[*]['kind','data','spec.replicas']}", ""},
		{"", "get cm second -o jsonpath={.data.none}", ""},
		{"", "get pods -o jsonpath={.items}", ""},
		{"", "get cm second none -o jsonpath={.items[*].metadata.name}", "second"},
		{"", "get cm second none -o name", `configmaps "none" not found`},
		{"", "get net red -o name", `networks.samplecrd.k8s.io "red" not found`},
		{"", "get net red --ignore-not-found -o name", ""},
		{"", "get nosuchkind -o name", `nosuchkind`},
		{"", `patch cm first second --type=merge -p {"data":{"a":null,"b":"2"}}`, ""},
		{"", `patch deployment web -p {"spec":{"template":{"spec":{"containers":[{"name":"c","args":["x"]}]}}}}`, ""},
		{"", `patch deployment/web --type=json -p [{"op":"replace","path":"/spec/paused","value":true}]`, ""},
		{"", `patch network blue --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}]}}`, ""},
		{"", `patch network green --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":0}]}}`, ""},
		{"", `patch net blue --type=merge -p {"spec":{"cidr":"10.9.0.0/24"}}`, "may only grow"},
		{"", "wait --for=condition=Ready network/blue --timeout=30s", ""},
		{"", "wait --for=condition=Ready=False network/blue --timeout=300ms", "timed out|deadline exceeded"},
		{"", "wait --for=condition=Ready network/green --timeout=300ms", "timed out|deadline exceeded"}, // of an older generation
		{"", "wait --for=condition=Ready network/red --timeout=30s", "not found"},
		{"", "wait --for=create cm/first --timeout=30s", ""},
		{"", "wait --for=create cm/none --timeout=300ms", "timed out|deadline exceeded"},
		{"", "wait --for=delete cm/none cm/neither --timeout=30s", ""},
		{"", "wait --for=delete cm/first --timeout=300ms", "timed out|deadline exceeded"},
		{"", "wait --for=jsonpath={.spec.paused}=true deploy/web --timeout=30s", ""},
		{"", "wait --for=jsonpath={.spec.paused}=false deploy/web --timeout=300ms", "timed out|deadline exceeded"},
		{"", "wait --for=jsonpath={.spec.none} deploy/web --timeout=300ms", "timed out|deadline exceeded"},
		{"", "scale deployment web --replicas=2", ""},
		{"", "scale deployment/none --replicas=2", "not found"},
		{"", "annotate cm first second x=y kept-", ""},
		{"", "annotate cm first x=z", "--overwrite is false"},
		{"", "annotate net --all --overwrite x=z", ""},
		{"", "label networks,cm -l app=a app- b=c", ""},
		{"", "delete cm second", ""},
		{"", "delete cm none", "not found"},
		{"", "delete cm -l b=c --cascade=foreground", ""},
		{"", "delete cm -l b=c", ""},
		{"", "delete deployment web --cascade=orphan", ""},
		{"", "delete network blue --wait=false", ""},
		{"", "delete networks --all --timeout=30s", ""},
		{objects, "create -f -", ""},
		{"", "annotate net,deploy web --overwrite x=q", `networks.samplecrd.k8s.io "web" not found`},
		{"", "patch cm first none --type=merge -p {\"data\":{\"c\":\"3\"}}", "not found"},
		{"", "delete net,cm green first", "not found"}, // the existing ones are deleted
	} {
		t.Run(strings.SplitN(c.args, "\n", 2)[0], func(t *testing.T) {
			args := strings.Fields(c.args)
			got, gotErr := inProcess(t.Context(), c.stdin, append([]string{"-n", own}, args...))
			want, wantErr := kubectlBinary(t.Context(), c.stdin, append([]string{"-n", binary}, args...)...)
			if (gotErr == nil) != (wantErr == nil) || (wantErr == nil) != (c.refusal == "") {
				t.Fatalf("in this process: %v\n%s\nby the binary: %v\n%s", gotErr, got, wantErr, want)
			}
			if says := regexp.MustCompile(c.refusal); !says.MatchString(got) || !says.MatchString(want) {
				t.Errorf("in this process:\n%s\nby the binary:\n%s\nwant in both %q", got, want, c.refusal)
			}
			if args[0] == "get" && c.refusal == "" && strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("in this process:\n%s\nby the binary:\n%s", got, want)
			}
			if strings.Count(got, "\n") != strings.Count(want, "\n") && wantErr == nil {
				t.Errorf("in this process %d lines:\n%s\nby the binary %d lines:\n%s", strings.Count(got, "\n"), got, strings.Count(want, "\n"), want)
			}
			if got, want := contents(t, own), contents(t, binary); got != want {
				t.Errorf("objects left in this process:\n%s\nby the binary:\n%s", got, want)
			}
		})
	}
}

// contents returns the objects that the commands change, with the parts that they change.
func contents(t *testing.T, namespace string) string {
	t.Helper()
	text := ""
	for _, kind := range []string{"configmaps", "deployments", "networks"} {
		client, err := (&kubectlCall{namespace: namespace}).kind(kind)
		if err != nil {
			t.Fatal(err)
		}
		list, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			if object.GetName() == "kube-root-ca.crt" {
				continue
			}
			delete(object.Object, "status")
			annotations := object.GetAnnotations()
			delete(annotations, "deployment.kubernetes.io/revision")
			data, _, _ := unstructured.NestedMap(object.Object, "data")
			text += fmt.Sprintln(kind, object.GetName(), object.GetLabels(), annotations, data, object.Object["spec"])
		}
	}
	return text
}
