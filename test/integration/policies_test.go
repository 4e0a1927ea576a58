//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// validationPolicies applies all policies of artifacts/ for all tests. The tests run as
// cluster administrators, whom the policies let pass.
func validationPolicies(t *testing.T, namespace string) {
	t.Helper()
	admissionPolicy(t, namespace)
	create(t, namespace, network("probe", `{cidr: 10.255.0.0/30}`))
	probe := newUser(t, namespace, "probe")
	noPods := newUser(t, namespace, "no-pods-probe", "samplecrd.k8s.io", "pod2s", "create")
	for _, p := range []struct {
		policy   string
		user     *user
		manifest string
	}{
		{"pod2-pods", probe, podWith("probe", "samplecrd.k8s.io/addresses", "{}")},
		{"pod2-templates", probe, strings.Replace(workload("Deployment", "probe", "replicas: 0"), "annotations: {", `annotations: {samplecrd.k8s.io/addresses: "{}", `, 1)},
		{"pod2-multus", probe, podWith("probe", "k8s.v1.cni.cncf.io/networks", "probe")},
		{"pod2-ledger", probe, addressBlock},
		{"pod2-plugins", probe, network("raw", `{cidr: 10.0.0.0/24, attachment: {type: CNI, config: '{}'}}`)},
		{"pod2-creators", noPods, pod2("probe", "replicas: 0")},
	} {
		eventually(t, p.policy+" is in force", func(context.Context) (string, error) {
			if got := p.user.create(t, p.manifest); !strings.Contains(got, p.policy) {
				return fmt.Sprintf("the answer to the probe is %q", got), nil
			}
			return "", nil
		})
	}
	run(t, namespace, "delete", "network", "probe")
}

// allowDeletion allows the deletion of a namespace's Networks while pods hold their
// addresses, or while their status says so. Tests share the policies, so a test needs this
// at its end.
func allowDeletion(t *testing.T, namespace string) {
	t.Helper()
	run(t, namespace, "annotate", "networks", "--all", "--overwrite", v1.AllowDeletionAnnotation+"=true")
}

// user is a user with some rights in one namespace, and none elsewhere.
type user struct {
	name, namespace string
	client          dynamic.Interface
}

// newUser creates a user with a Role of rules "group, resources, verbs"; each field is a
// list with spaces. Without rules, the user gets the role `edit`, every right on
// AddressBlocks, and every right on subresources of pods. So RBAC does not refuse this
// user's requests.
func newUser(t *testing.T, namespace, name string, rules ...string) *user {
	t.Helper()
	manifest := fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s}
rules:
`, name)
	if len(rules) == 0 {
		all := "create get update patch delete" // a user needs delete to change an object's owners
		rules = []string{
			"", "pods pods/status pods/binding pods/resize pods/ephemeralcontainers bindings replicationcontrollers podtemplates", all,
			"apps", "deployments replicasets statefulsets daemonsets", all, "batch", "jobs cronjobs", all,
			"samplecrd.k8s.io", "networks pod2s addressblocks addressslices addresshistories sidecars", all,
		}
	}
	list := func(words string) string { return "[" + strings.Join(strings.Fields(words), ", ") + "]" }
	for i := 0; i < len(rules); i += 3 {
		manifest += fmt.Sprintf("- {apiGroups: [%q], resources: %s, verbs: %s}\n", rules[i], list(rules[i+1]), list(rules[i+2]))
	}
	create(t, namespace, manifest)
	for i := 0; i < len(rules); i += 3 {
		last := func(words string) string { return strings.Trim(words[strings.LastIndex(words, " ")+1:], `"`) }
		resource, sub, _ := strings.Cut(last(rules[i+1]), "/")
		waitAllowed(t, name, authorizationv1.ResourceAttributes{Namespace: namespace, Group: rules[i], Resource: resource, Subresource: sub, Verb: last(rules[i+2])})
	}
	return knownUser(t, namespace, name)
}

// waitAllowed waits until the API server knows a right of a user.
func waitAllowed(t *testing.T, name string, right authorizationv1.ResourceAttributes) {
	t.Helper()
	eventually(t, "the API server knows the rights of "+name, func(ctx context.Context) (string, error) {
		review, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: name, ResourceAttributes: &right}}, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed {
			return "", err
		}
		return review.Status.Reason + review.Status.EvaluationError, nil
	})
}

// knownUser is a user whose rights are already in effect.
func knownUser(t *testing.T, namespace, name string, groups ...string) *user {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	client, err := dynamic.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	return &user{name: name, namespace: namespace, client: client}
}

// create sends a dry-run creation. It returns the refusal, "" for none.
func (u *user) create(t *testing.T, manifest string) string {
	t.Helper()
	object := parse(t, manifest)
	kind := object.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return u.createAt(t, object, resource)
}

// createAt is create for an object whose kind does not determine the resource.
func (u *user) createAt(t *testing.T, object *unstructured.Unstructured, resource schema.GroupVersionResource, subresources ...string) string {
	t.Helper()
	_, err := u.client.Resource(resource).Namespace(u.namespace).
		Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return refusal(err)
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.TrimPrefix(manifest, "---")), &object.Object); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return object
}

var (
	podsResource   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	blocksResource = schema.GroupVersionResource{Group: "samplecrd.k8s.io", Version: "v1", Resource: "addressblocks"}
	pod2sResource  = schema.GroupVersionResource{Group: "samplecrd.k8s.io", Version: "v1", Resource: "pod2s"}
)

// patch sends a dry-run patch. It returns the refusal, "unchanged" if the patch had no
// effect, and "" otherwise.
func (u *user) patch(t *testing.T, resource schema.GroupVersionResource, name, patch string, subresources ...string) string {
	t.Helper()
	in := u.client.Resource(resource).Namespace(u.namespace)
	before, err := dyn.Resource(resource).Namespace(u.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	after, err := in.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	if err == nil && len(subresources) == 1 && subresources[0] == "scale" {
		return ""
	}
	if err == nil && fmt.Sprint(before.GetAnnotations(), before.GetLabels(), before.GetFinalizers(), before.GetOwnerReferences(), before.Object["spec"]) ==
		fmt.Sprint(after.GetAnnotations(), after.GetLabels(), after.GetFinalizers(), after.GetOwnerReferences(), after.Object["spec"]) {
		return "unchanged"
	}
	return refusal(err)
}

func refusal(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// waitKnown waits until the API server's cache of Networks has a Network.
func (u *user) waitKnown(t *testing.T, network string) {
	t.Helper()
	eventually(t, "the policy knows Network "+network, func(context.Context) (string, error) {
		if u.create(t, podWith("p", "k8s.v1.cni.cncf.io/networks", network)) == "" {
			return "not yet", nil
		}
		return "", nil
	})
}

// podWith is a bare pod with one annotation.
func podWith(name, annotation, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {%s: %q}}\nspec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}\n",
		name, annotation, value)
}

const addressBlock = `apiVersion: samplecrd.k8s.io/v1
kind: AddressBlock
metadata: {name: blue-10.0.0.0}
spec: {network: blue, networkUID: x, cidr: 10.0.0.0/24, entries: []}
`

// outcome compares a result: "" means allowed, any other text must be part of the refusal.
func outcome(t *testing.T, what, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// Values of Multus' annotation that name a Network of the namespace, "blue".
func TestMultusElementsThatNameANetwork(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green-1", `{cidr: 10.0.0.0/24}`))
	u := newUser(t, ns, "user")
	u.waitKnown(t, "blue")
	u.waitKnown(t, "green-1")
	const refused = "pod2-multus"
	for _, c := range []struct{ text, want string }{
		{"macvlan-conf", ""},
		{"macvlan-conf, other/bridge@eth1", ""},
		{"macvlan@blue", ""},
		{"blue/macvlan", ""},
		{"other/blue", ""},
		{"other / blue", ""},
		{"a/macvlan, /macvlan, x-/blue", ""},
		{"bluer, not-blue, blue-1, green", ""},
		{"blue", refused},
		{" blue ", refused},
		{"\u00a0blue", refused},
		{"a,blue@net1", refused},
		{"a, " + ns + "/blue", refused},
		{"a, " + ns + " / blue @x", refused},
		{"/blue", refused}, // Multus reads an empty namespace as that of the pod
		{"a, / blue @x", refused},
		{"a,/blue@net1,b", refused},
		{strings.Repeat("a,", 8000) + "/blue", refused},
		{"green-1", refused},
		{`[{"name":"macvlan-conf","ips":["10.0.0.5/24"],"mac":"02:00:00:00:00:01"}]`, ""},
		{`[{"name":"a","interface":"blue"}]`, ""},
		{`[{"name":"a","cni-args":{"text":"\"name\":\"blue\"\n"}}]`, ""},
		{`[{"name":"blue","ips":["10.0.0.5/24"]}]`, refused},
		{`[{"name":"a"},{"NAME" : ` + "\n" + `"blue"}]`, refused},
		{`[{"name":"a","name":"blue"}]`, refused},
		{`[{"n\u0061me":"blue"}]`, refused},
		{`[{"name":"bl\u0075e"}]`, refused},
		{`{"name":"blue"}`, refused},
		{`[` + strings.Repeat(" ", 100<<10) + `{"name":"blue"}]`, refused},
	} {
		outcome(t, fmt.Sprintf("a pod with %.80q", c.text), u.create(t, podWith("p", "k8s.v1.cni.cncf.io/networks", c.text)), c.want)
	}
	outcome(t, "the default network", u.create(t, podWith("p", "v1.multus-cni.io/default-network", "blue")), refused)
}

// The policies refuse templates of pods like pods.
func TestTemplatesBringNothingAlong(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`))
	u := newUser(t, ns, "user")
	u.waitKnown(t, "blue")
	template := func(annotation, restart string) string {
		return fmt.Sprintf(`{metadata: {labels: {app: x}, annotations: {%s}}, spec: {restartPolicy: %s, containers: [{name: c, image: i}]}}`, annotation, restart)
	}
	kinds := []struct{ version, kind, spec string }{
		{"apps/v1", "Deployment", "spec: {selector: {matchLabels: {app: x}}, template: TEMPLATE}"},
		{"apps/v1", "ReplicaSet", "spec: {selector: {matchLabels: {app: x}}, template: TEMPLATE}"},
		{"apps/v1", "StatefulSet", "spec: {selector: {matchLabels: {app: x}}, template: TEMPLATE}"},
		{"apps/v1", "DaemonSet", "spec: {selector: {matchLabels: {app: x}}, template: TEMPLATE}"},
		{"v1", "ReplicationController", "spec: {template: TEMPLATE}"},
		{"v1", "PodTemplate", "template: TEMPLATE"},
		{"batch/v1", "Job", "spec: {template: TEMPLATE}"},
		{"batch/v1", "CronJob", "spec: {schedule: '@yearly', jobTemplate: {spec: {template: TEMPLATE}}}"},
		{"samplecrd.k8s.io/v1", "Pod2", "spec: {template: TEMPLATE}"},
	}
	for _, k := range kinds {
		for annotation, want := range map[string]string{
			"samplecrd.k8s.io/networks: blue":           "",
			"k8s.v1.cni.cncf.io/networks: macvlan-conf": "",
			"k8s.v1.cni.cncf.io/networks: blue":         "pod2-multus",
			"samplecrd.k8s.io/addresses: '{}'":          "pod2-templates",
		} {
			if k.kind == "Pod2" && want == "pod2-templates" {
				want = "" // its replicas do not get it
			}
			restart := "Always"
			if k.version == "batch/v1" {
				restart = "Never"
			}
			manifest := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: x}\n%s\n", k.version, k.kind,
				strings.ReplaceAll(k.spec, "TEMPLATE", template(annotation, restart)))
			outcome(t, "a "+k.kind+" with "+annotation, u.create(t, manifest), want)
		}
	}
}

// A template older than the policies can be fixed, and the policies do not block other
// changes of it.
func TestOldTemplatesCanBeMended(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+strings.Replace(workload("Deployment", "web", "replicas: 0"),
		"annotations: {", `annotations: {k8s.v1.cni.cncf.io/networks: blue, samplecrd.k8s.io/addresses: "{}", `, 1))
	u := newUser(t, ns, "user")
	u.waitKnown(t, "blue")
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for _, c := range []struct{ what, patch, want string }{
		{"scale", `{"spec":{"replicas":1}}`, ""},
		{"another answer", `{"spec":{"template":{"metadata":{"annotations":{"samplecrd.k8s.io/addresses":"x"}}}}}`, "pod2-templates"},
		{"answer removed", `{"spec":{"template":{"metadata":{"annotations":{"samplecrd.k8s.io/addresses":null}}}}}`, ""},
		{"other elements of a Network", `{"spec":{"template":{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"a,blue"}}}}}`, "pod2-multus"},
		{"elements of a Network removed", `{"spec":{"template":{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":null}}}}}`, ""},
	} {
		outcome(t, c.what, u.patch(t, deployments, "web", c.patch), c.want)
	}
}
