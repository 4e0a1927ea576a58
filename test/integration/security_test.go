//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// docs/contributing/test-coverage.md describes the subject of these and other tests.

// Not parallel: the controller serves all namespaces.
func TestNetworksOfOtherNamespacesAreOutOfReach(t *testing.T) {
	victim, attacker := newNamespace(t), newNamespace(t)
	startController(t, "")
	create(t, victim, network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("p", "blue"))
	waitReady(t, victim, "pod/p")
	create(t, attacker, gatedPod("by-name", "blue")+gatedPod("by-path", victim+"/blue")+
		pod2("web", "replicas: 1, networks: [{name: blue}]"))
	waitCondition(t, attacker, "pod/by-name", bound, `False NetworkNotFound: Network "blue" does not exist in this namespace`)
	waitCondition(t, attacker, "pod/by-path", bound, "False InvalidRequest")
	waitCondition(t, attacker, "pod2/web", "Ready", "False NetworkNotFound")
	// A Network with the same name and the same addresses is another Network.
	create(t, attacker, network("blue", `{cidr: 10.0.0.0/24}`))
	waitReady(t, attacker, "pod/by-name")
	waitLedger(t, victim, "10.0.0.2 Bound p")
}

// The controller may create pods anywhere. Pod Security refuses a Pod2's pods like the pods
// of a user in the namespace.
func TestPod2IsHeldToPodSecurity(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	run(t, "", "label", "namespace", ns, "pod-security.kubernetes.io/enforce=baseline")
	startController(t, ns)
	create(t, ns, `---
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web}
spec:
  replicas: 1
  template:
    spec: {hostNetwork: true, containers: [{name: c, image: registry.k8s.io/pause:3.10, securityContext: {privileged: true}}]}
`)
	waitCondition(t, ns, "pod2/web", "Ready", `violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), privileged`)
	waitGone(t, ns, "pods")
}

// Labels and names prove no ownership: other owners' pods survive a Pod2 that they claim to
// belong to.
func TestForgedLabelsBringNothingAbout(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	forged := func(kind, version, name, spec string) string {
		return fmt.Sprintf(`---
apiVersion: %s
kind: %s
metadata:
  name: %s
  labels: {samplecrd.k8s.io/managed: "true", samplecrd.k8s.io/pod2: web, samplecrd.k8s.io/pod-index: "1", samplecrd.k8s.io/network: blue}
%s
`, version, kind, name, spec)
	}
	const spec = "spec: {containers: [{name: other, image: registry.k8s.io/pause:3.9}]}"
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", "replicas: 1, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
	create(t, ns, forged("Pod", "v1", "web-1", spec)+forged("Pod", "v1", "other", spec)+
		forged("Service", "v1", "web-green", "spec: {clusterIP: None}")+
		forged("PersistentVolumeClaim", "v1", "data-web-1", "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}")+
		forged("ControllerRevision", "apps/v1", "web-forged", "revision: 7\ndata: {}"))
	kinds := "pods/web-1,pods/other,services/web-green,persistentvolumeclaims/data-web-1,controllerrevisions/web-forged"
	list := strings.Split(kinds, ",")
	before := run(t, ns, append([]string{"get", "-o", "jsonpath={.items[*].metadata.uid}"}, list...)...)
	run(t, ns, "scale", "pod2", "web", "--replicas=3")
	waitCondition(t, ns, "pod2/web", "Ready", "False NameTaken: pod web-1 already exists")
	run(t, ns, "scale", "pod2", "web", "--replicas=0")
	waitReplicas(t, ns, "web", 0)
	run(t, ns, "delete", "pod2", "web", "--timeout="+patience.String())
	run(t, ns, "wait", "--for=delete", "service/web-blue", "--timeout="+patience.String())
	if after := run(t, ns, append([]string{"get", "-o", "jsonpath={.items[*].metadata.uid}"}, list...)...); after != before {
		t.Errorf("the objects were\n%s\nand are\n%s", before, after)
	}
}

// The address of an absent replica is kept for a pod with its name and owner. Another pod
// does not get it, neither by a request nor by the name alone.
func TestReservedAddressGoesByNameAndOwner(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	admissionPolicy(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/29, reuseDelaySeconds: 600}`)+workload("StatefulSet", "db", "replicas: 1"))
	run(t, ns, "rollout", "status", "statefulset/db", "--timeout="+patience.String())
	waitLedger(t, ns, "10.0.0.2 Bound db-0")
	run(t, ns, "scale", "statefulset", "db", "--replicas=0")
	waitLedger(t, ns, "10.0.0.2 Reserved db-0")

	create(t, ns, gatedPod("other", "blue=10.0.0.2"))
	waitCondition(t, ns, "pod/other", bound, "AddressInUse: the wanted address 10.0.0.2")
	create(t, ns, gatedPod("db-0", "blue"))
	waitReady(t, ns, "pod/db-0")
	waitLedger(t, ns, "10.0.0.2 Reserved db-0\n10.0.0.3 Bound db-0")
	run(t, ns, "delete", "pod", "db-0", "other")

	run(t, ns, "scale", "statefulset", "db", "--replicas=1")
	eventually(t, "the replica has its address", func(context.Context) (string, error) {
		if got := addresses(t, ns)["db-0"]; got != "blue=10.0.0.2/29" {
			return "it has " + got, nil
		}
		return "", nil
	})
}

// A user who may not create pods can still fill a Network, by scaling another user's Pod2,
// or starve it, by excluding all of its addresses. But no pod loses its address.
func TestWhoMayNotCreatePodsTakesNobodysAddress(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	newUser(t, ns, "scaler", "samplecrd.k8s.io", "pod2s pod2s/scale networks", "get update patch")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/29}`)+network("green", `{cidr: 10.0.0.0/29}`)+
		pod2("web", "replicas: 1, networks: [{name: blue}]")+pod2("db", "replicas: 1, networks: [{name: green}]"))
	waitReady(t, ns, "pod2/web", "pod2/db")
	run(t, ns, "--as=scaler", "scale", "pod2", "web", "--replicas=9")
	waitCondition(t, ns, "network/blue", "AddressesAvailable", "False NetworkExhausted")
	run(t, ns, "--as=scaler", "patch", "network", "green", "--type=merge", "-p", `{"spec":{"exclude":["10.0.0.0/29"]}}`)
	create(t, ns, gatedPod("late", "green"))
	waitCondition(t, ns, "pod/late", bound, "False NetworkNotReady")
	run(t, ns, "delete", "pod", "web-0", "db-0")
	eventually(t, "the first replicas have their addresses", func(context.Context) (string, error) {
		if got := addresses(t, ns); got["web-0"] != "blue=10.0.0.2/29" || got["db-0"] != "green=10.0.0.2/29" {
			return render(got), nil
		}
		return "", nil
	})
}

// While an update is paused, replicas are recreated from a revision. A user who may not
// create pods cannot forge a revision under the same name.
func TestOnlyWhoMayCreatePodsWritesRevisions(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	create(t, ns, pod2("web", "replicas: 1"))
	waitReady(t, ns, "pod2/web")
	name := run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.status.currentRevision}")
	revisions := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}
	rights := []string{"apps", "controllerrevisions", "create get patch delete"}
	u, creator := newUser(t, ns, "no-pods", rights...), newUser(t, ns, "creator", append(rights, "", "pods", "create")...)
	const creators = "pod2-creators"
	forged := func(name, labels string) string {
		return "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: " + name + ", labels: " + labels + "}\nrevision: 1\ndata: {template: {}}\n"
	}
	label := "{samplecrd.k8s.io/pod2: web, samplecrd.k8s.io/pod-template-hash: forged}"
	eventually(t, "the policy is in force", func(context.Context) (string, error) {
		if got := u.create(t, forged("web-forged", label)); !strings.Contains(got, creators) {
			return fmt.Sprintf("answered %q", got), nil
		}
		return "", nil
	})
	outcome(t, "create, with the right to create pods", creator.create(t, forged("web-forged", label)), "")
	outcome(t, "create a StatefulSet's", u.create(t, forged("db-1", "{app: db}")), "")
	for _, c := range []struct{ what, patch, want string }{
		{"another number", `{"revision":7}`, creators},
		{"another label", `{"metadata":{"labels":{"samplecrd.k8s.io/pod-template-hash":"forged"}}}`, creators},
		{"label removed", `{"metadata":{"labels":{"samplecrd.k8s.io/pod2":null}}}`, creators},
		{"interfaces and addresses", `{"metadata":{"annotations":{"samplecrd.k8s.io/revision-networks":"[]"}}}`, creators},
		{"another annotation", `{"metadata":{"annotations":{"example.com/note":"x"}}}`, ""},
		{"the content, which no policy checks", `{"data":{"template":null}}`, "field is immutable"},
		{"owner removed, as by the garbage collector", `{"metadata":{"ownerReferences":null}}`, ""},
	} {
		outcome(t, c.what, u.patch(t, revisions, name, c.patch), c.want)
	}
}
