//go:build integration && smoke

package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A day with Pod2, on the version of Kubernetes that K8S names: install, addresses, a
// rollout, a lost replica, uninstall.
func TestSmoke(t *testing.T) {
	install(t)
	ns := newNamespace(t)
	c := startController(t, ns, "--kubeconfig", asServiceAccount(t))
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+pod2("web", "replicas: 3, networks: [{name: blue}]"))
	waitReady(t, ns, "network/blue", "pod2/web")

	db := workload("StatefulSet", "db", "replicas: 2")
	if mutatingPolicies() {
		admissionPolicy(t, ns)
	} else {
		c.waitLog(t, "mutatingadmissionpolicies")
		gatesAreRequired(t, ns)
		db = gated(db)
	}
	create(t, ns, db)
	run(t, ns, "rollout", "status", "statefulset/db", "--timeout="+patience.String())
	requireUnique(t, ns)
	first := addresses(t, ns)
	held, used := render(first), slices.Sorted(maps.Values(first))
	if want := []string{"blue=10.0.0.2/24", "blue=10.0.0.3/24", "blue=10.0.0.4/24", "blue=10.0.0.5/24", "blue=10.0.0.6/24"}; !slices.Equal(used, want) {
		t.Errorf("addresses are\n%s\nwant %s", held, want)
	}

	before := uids(t, ns)
	setVersion(t, ns, "web", "2")
	run(t, ns, "delete", "pod", "db-0")
	run(t, ns, "wait", "--for=jsonpath={.status.updatedReplicas}=3", "pod2/web", "--timeout="+patience.String())
	waitReady(t, ns, "pod2/web")
	waitAddresses(t, ns, held)
	after := uids(t, ns)
	for _, pod := range []string{"web-0", "web-2", "db-0"} {
		if before[pod] == after[pod] {
			t.Errorf("%s was not recreated", pod)
		}
	}

	run(t, ns, "delete", "pod2/web", "statefulset/db", "--timeout="+patience.String())
	run(t, ns, "delete", "pods", "--all", "--timeout="+patience.String())
	allowDeletion(t, ns)
	run(t, ns, "delete", "networks.samplecrd.k8s.io", "--all", "--timeout="+patience.String())
	if log := c.log.String(); strings.Contains(log, "forbidden") {
		t.Errorf("the controller was refused:\n%s", grep(log, "forbidden"))
	}
	crds, rest := manifests(t)[:2], manifests(t)[2:] // the policies before the CRDs
	run(t, "", slices.Concat([]string{"delete", "--ignore-not-found", "--timeout=" + patience.String()}, rest, crds)...)
	create(t, ns, strings.Replace(workloadPod("plain", "blue"), "samplecrd.k8s.io/networks", "example.com/note", 1))
	waitReady(t, ns, "pod/plain") // nothing of Pod2 is left on the path of a pod
}
