//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The published addresses and the request of a bound pod cannot be changed, by any user who
// may write there or through any subresource.
func TestBoundPodIsNotRewritten(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("bound", "blue")+gatedPod("waits", "red")+
		strings.Replace(gatedPod("brought", "blue"), "annotations: {", `annotations: {k8s.v1.cni.cncf.io/networks: blue, samplecrd.k8s.io/addresses: nonsense, `, 1))
	waitReady(t, ns, "pod/bound")
	waitCondition(t, ns, "pod/waits", bound, "False NetworkNotFound")
	u := newUser(t, ns, "user")

	const answers = "pod2-pods"
	annotate := func(key, value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value)
	}
	for _, c := range []struct{ what, pod, patch, want string }{
		{"another answer", "bound", annotate("samplecrd.k8s.io/addresses", `"{}"`), answers},
		{"answer removed", "bound", annotate("samplecrd.k8s.io/addresses", `null`), answers},
		{"an answer to a waiting pod", "waits", annotate("samplecrd.k8s.io/addresses", `"{}"`), answers},
		{"another request", "bound", annotate("samplecrd.k8s.io/networks", `"blue=10.0.0.9"`), answers},
		{"another request of a waiting pod", "waits", annotate("samplecrd.k8s.io/networks", `"blue"`), ""},
		{"other elements for Multus", "bound", annotate("k8s.v1.cni.cncf.io/networks", `"macvlan-conf"`), answers},
		{"another default network for Multus", "bound", annotate("v1.multus-cni.io/default-network", `"macvlan-conf"`), answers},
		{"elements for Multus of a waiting pod", "waits", annotate("k8s.v1.cni.cncf.io/networks", `"macvlan-conf"`), ""},
		{"a Network's elements for a waiting pod", "waits", annotate("k8s.v1.cni.cncf.io/networks", `"blue"`), "pod2-multus"},
		// Users can remove values that the controller complains about.
		{"another answer of a pod created with one", "brought", annotate("samplecrd.k8s.io/addresses", `"{\"a\":{}}"`), answers},
		{"answer removed from a pod created with one", "brought", annotate("samplecrd.k8s.io/addresses", `null`), ""},
		{"another request of a pod created with an answer", "brought", annotate("samplecrd.k8s.io/networks", `"red"`), ""},
		{"more elements of a Network in a pod created with some", "brought", annotate("k8s.v1.cni.cncf.io/networks", `"blue, x"`), "pod2-multus"},
		{"elements of a Network removed", "brought", annotate("k8s.v1.cni.cncf.io/networks", `"x"`), ""},
		{"something else", "bound", annotate("example.com/note", `"x"`), ""},
	} {
		outcome(t, c.what, u.patch(t, podsResource, c.pod, c.patch), c.want)
		aside := answers // no user needs this way, so every change is refused
		if c.what == "something else" {
			aside = ""
		}
		outcome(t, c.what+", through status", u.patch(t, podsResource, c.pod, c.patch, "status"), aside)
		// Kubernetes lets no annotation through here. If it ever does, the policy must not.
		for _, subresource := range []string{"resize", "ephemeralcontainers"} {
			if got := u.patch(t, podsResource, c.pod, c.patch, subresource); got != "unchanged" && aside != "" {
				outcome(t, c.what+", through "+subresource, got, aside)
			}
		}
	}
}

// The annotations of a Binding are copied to the pod.
func TestBindingBringsNothingAlong(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	create(t, ns, `---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {schedulerName: none, containers: [{name: c, image: registry.k8s.io/pause:3.10}]}
`)
	u := newUser(t, ns, "user")
	for annotation, want := range map[string]string{
		"example.com/note: x":                       "",
		"samplecrd.k8s.io/addresses: '{}'":          "pod2-pods",
		"samplecrd.k8s.io/networks: blue":           "pod2-pods",
		"k8s.v1.cni.cncf.io/networks: blue":         "pod2-pods",
		"v1.multus-cni.io/default-network: default": "pod2-pods",
	} {
		binding := fmt.Sprintf("apiVersion: v1\nkind: Binding\nmetadata: {name: p, annotations: {%s}}\ntarget: {apiVersion: v1, kind: Node, name: node-000000}\n", annotation)
		outcome(t, "pods/binding with "+annotation, u.createAt(t, parse(t, binding), podsResource, "binding"), want)
		outcome(t, "bindings with "+annotation, u.create(t, binding), want)
	}
}

// A pod in a terminal phase loses its addresses to other pods. So the phase may be set only
// by the pod's node and by controllers that clean up after a node, not by every user who
// may write the status.
func TestOnlyNodesSayThatAPodIsOver(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("runs", "blue")+gatedPod("ended", "blue")+gatedPod("waits", "red")+`---
apiVersion: v1
kind: Pod
metadata: {name: without}
spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}
`)
	waitReady(t, ns, "pod/runs", "pod/ended", "pod/without")
	run(t, ns, "patch", "pod", "ended", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"Failed"}}`)
	node := run(t, ns, "get", "pod", "runs", "-o", "jsonpath={.spec.nodeName}")
	u := newUser(t, ns, "user")
	const over, phases = `{"status":{"phase":"Failed"}}`, "may report whether the pod has terminated"
	eventually(t, "the policy is in force", func(context.Context) (string, error) {
		if got := u.patch(t, podsResource, "runs", over, "status"); !strings.Contains(got, phases) {
			return fmt.Sprintf("answered %q", got), nil
		}
		return "", nil
	})
	for _, c := range []struct{ what, pod, patch, want string }{
		{"terminated, without a running container", "runs", `{"status":{"phase":"Succeeded"}}`, phases},
		{"no longer terminated", "ended", `{"status":{"phase":"Running"}}`, phases},
		{"terminated in another way", "ended", `{"status":{"phase":"Succeeded"}}`, "unchanged"},
		{"a condition, as preemption writes it", "runs", `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}`, "unchanged"},
		{"pending", "runs", `{"status":{"phase":"Pending"}}`, "unchanged"},
		{"terminated while waiting for addresses that may be bound", "waits", over, phases},
		{"a pod without addresses", "without", over, "unchanged"},
	} {
		outcome(t, c.what, u.patch(t, podsResource, c.pod, c.patch, "status"), c.want)
	}
	for _, writer := range []*user{
		knownUser(t, ns, "system:node:"+node, "system:nodes", "system:authenticated"),
		knownUser(t, ns, "system:serviceaccount:kube-system:pod-garbage-collector", "system:serviceaccounts", "system:serviceaccounts:kube-system"),
		newUser(t, ns, "system:kube-controller-manager", "", "pods/status", "patch"),
		newUser(t, ns, "binder", "", "pods/status", "patch", "samplecrd.k8s.io", "addressblocks", "bind"),
		virtualKubelet(t, ns),
	} {
		outcome(t, writer.name, writer.patch(t, podsResource, "runs", over, "status"), "unchanged")
	}
}

// virtualKubelet is a user who may write the status of nodes.
func virtualKubelet(t *testing.T, namespace string) *user {
	t.Helper()
	name := "virtual-kubelet-" + namespace
	t.Cleanup(func() { run(t, "", "delete", "clusterrole,clusterrolebinding", name) })
	run(t, "", "create", "clusterrole", name, "--verb=patch", "--resource=nodes/status,pods/status")
	run(t, "", "create", "clusterrolebinding", name, "--clusterrole="+name, "--user="+name)
	waitAllowed(t, name, authorizationv1.ResourceAttributes{Resource: "nodes", Subresource: "status", Verb: "patch"})
	return knownUser(t, namespace, name)
}

// Only the controller changes AddressBlocks, whichever rights RBAC grants.
func TestLedgerIsNotRewritten(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("p", "blue"))
	waitReady(t, ns, "pod/p")
	u := newUser(t, ns, "user")
	const ledger = "pod2-ledger"
	outcome(t, "another AddressBlock", u.create(t, addressBlock), ledger)
	outcome(t, "an AddressSlice", u.create(t, addressSlice), ledger)
	outcome(t, "an AddressHistory", u.create(t, addressHistory), ledger)
	for _, c := range []struct{ what, patch, want string }{
		{"entries removed", `{"spec":{"entries":[]}}`, ledger},
		{"empty and sealed", `{"spec":{"entries":[],"sealed":true}}`, ledger},
		{"finalizer removed", `{"metadata":{"finalizers":null}}`, ledger},
		{"a label", `{"metadata":{"labels":{"a":"b"}}}`, ledger},
		{"an annotation", `{"metadata":{"annotations":{"a":"b"}}}`, ledger},
		// Changes that the garbage collector makes.
		{"owner removed", `{"metadata":{"ownerReferences":null}}`, ""},
		{"one more finalizer", `{"metadata":{"finalizers":["samplecrd.k8s.io/in-use","foregroundDeletion"]}}`, ""},
	} {
		outcome(t, c.what, u.patch(t, blocksResource, "blue-10.0.0.0", c.patch), c.want)
	}
	binder := newUser(t, ns, "binder", "samplecrd.k8s.io", "addressblocks", "create get patch bind")
	outcome(t, "a user with the verb bind", binder.patch(t, blocksResource, "blue-10.0.0.0", `{"spec":{"entries":[]}}`), "")
	everything := newUser(t, ns, "everything", "samplecrd.k8s.io", "addressblocks", `"*"`)
	outcome(t, "a user with every verb", everything.patch(t, blocksResource, "blue-10.0.0.0", `{"spec":{"entries":[]}}`), "")
}

// A user who may not create pods cannot create them through a Pod2 or a CronTab.
func TestOnlyWhoMayCreatePodsWritesPod2s(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	create(t, ns, pod2("web", "replicas: 0")+cronTab("v1", "ct", `cronSpec: "@yearly"`))
	rights := []string{"samplecrd.k8s.io", "pod2s pod2s/scale sidecars", "create get update patch", "stable.example.com", "crontabs", "create get update patch"}
	u := newUser(t, ns, "no-pods", rights...)
	creator := newUser(t, ns, "creator", append(rights, "", "pods", "create")...)
	const creators = "pod2-creators"
	for _, manifest := range []string{pod2("db", "replicas: 0"), cronTab("v1", "x", `cronSpec: "@yearly"`), cronTab("v1beta1", "x", `cronSpec: "@yearly"`),
		sidecar("x", `containers: [{name: c, image: a}]`)} {
		outcome(t, "create "+manifest, u.create(t, manifest), creators)
		outcome(t, "create, with the right to create pods, "+manifest, creator.create(t, manifest), "")
	}
	for _, c := range []struct{ what, patch, want string }{
		{"another template", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, creators},
		{"labels, which its pods get too", `{"metadata":{"labels":{"app":"other"}}}`, creators},
		{"an annotation", `{"metadata":{"annotations":{"a":"b"}}}`, ""},
		{"the garbage collector's finalizer", `{"metadata":{"finalizers":["foregroundDeletion"]}}`, ""},
	} {
		outcome(t, c.what, u.patch(t, pod2sResource, "web", c.patch), c.want)
		outcome(t, c.what+", with the right to create pods", creator.patch(t, pod2sResource, "web", c.patch), "")
	}
	// As a HorizontalPodAutoscaler scales.
	outcome(t, "scale", u.patch(t, pod2sResource, "web", `{"spec":{"replicas":3}}`, "scale"), "")
}

// The garbage collector may neither create pods nor bind.
func TestGarbageCollectorPassesThePolicies(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	create(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\n"+network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("p", "blue")+
		pod2("first", "replicas: 0")+pod2("web", "replicas: 1"))
	waitReady(t, ns, "pod/p", "pod2/web")
	own := func(pod2, configMap string, propagation metav1.DeletionPropagation) {
		owner, err := kube.CoreV1().ConfigMaps(ns).Get(t.Context(), configMap, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		patchPod2(t, ns, pod2, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]}}`, configMap, owner.UID))
		if err := kube.CoreV1().ConfigMaps(ns).Delete(t.Context(), configMap, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
			t.Fatal(err)
		}
	}
	// Until the collector watches Pod2s, it does not know from which object to remove the
	// owner.
	own("first", "first", metav1.DeletePropagationBackground)
	run(t, ns, "wait", "--for=delete", "pod2/first", "--timeout="+patience.String())
	own("web", "second", metav1.DeletePropagationOrphan)
	eventually(t, "the Pod2 has no owner", func(context.Context) (string, error) {
		if owners := getPod2(t, ns, "web").OwnerReferences; len(owners) > 0 {
			return fmt.Sprint(owners), nil
		}
		return "", nil
	})
	run(t, ns, "delete", "pod2", "web", "--cascade=foreground", "--timeout="+patience.String())
	allowDeletion(t, ns)
	run(t, ns, "delete", "network", "blue", "--cascade=foreground", "--wait=false")
	run(t, ns, "delete", "pod", "p", "--timeout="+patience.String())
	waitGone(t, ns, "networks,addressblocks")
}

// A Pod2's replicas are created with the controller's rights, and its template may be older
// than the Network. The policy refuses such a pod, whichever user wrote the template.
func TestReplicaIsHeldToItsUsersRights(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	create(t, ns, `---
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web}
spec:
  replicas: 0
  template:
    metadata: {annotations: {k8s.v1.cni.cncf.io/networks: '[{"name":"blue","ips":["10.0.0.5/24"]}]'}}
    spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}
`+network("blue", `{cidr: 10.0.0.0/24}`))
	u := newUser(t, ns, "user")
	u.waitKnown(t, "blue")
	run(t, ns, "scale", "pod2", "web", "--replicas=1")
	waitCondition(t, ns, "pod2/web", "Ready", "denied request: the annotation k8s.v1.cni.cncf.io/networks names Network blue")
}

// A user removed the CRDs and left the policies, and the API server was restarted. Pods are
// created as before. A kind that never existed has the same effect as a removed CRD.
func TestPodsAreWrittenWithoutTheCRDs(t *testing.T) {
	ns := newNamespace(t)
	validationPolicies(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`))
	u := newUser(t, ns, "user")
	u.waitKnown(t, "blue")
	file := filepath.Join(root, "artifacts/31-validation-policies.yaml")
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const parameters = "paramKind: {apiVersion: samplecrd.k8s.io/v1, kind: Network}"
	gone := strings.Replace(string(manifest), parameters, strings.Replace(parameters, "Network", "NoSuchKind", 1), 1)
	if gone == string(manifest) {
		t.Fatalf("%s has no %s", file, parameters)
	}
	t.Cleanup(func() { run(t, "", "apply", "-f", file) })
	if out, err := kubectlWith(t.Context(), gone, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "pods are created", func(context.Context) (string, error) {
		return u.create(t, podWith("p", "k8s.v1.cni.cncf.io/networks", "blue")), nil
	})
	outcome(t, "a pod with an answer", u.create(t, podWith("p", "samplecrd.k8s.io/addresses", "{}")), "pod2-pods")
}
