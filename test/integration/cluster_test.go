//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
)

// A Network hands out no address that the cluster uses, by any of the objects that record
// such addresses. The controller has the rights of its role. Not parallel: it serves all
// namespaces.
func TestNetworksKeepOffTheCluster(t *testing.T) {
	install(t)
	ns := newNamespace(t)
	services := run(t, "", "get", "servicecidr", "kubernetes", "-o", "jsonpath={.spec.cidrs[0]}")
	node := strings.Fields(run(t, "", "get", "nodes", "-o", "jsonpath={range .items[*]}{.metadata.name} {.spec.podCIDRs[0]} {.status.addresses[?(@.type==\"InternalIP\")].address}{\"\\n\"}{end}"))
	name, pods, address := node[0], node[1], node[2]
	earlier := startController(t, ns, "--kubeconfig", asServiceAccount(t))
	create(t, ns, network("older", fmt.Sprintf(`{cidr: %s}`, services))+gatedPod("first", "older"))
	waitReady(t, ns, "pod/first") // this controller does not read cluster-scoped objects
	if err := earlier.stop(15); err != nil {
		t.Error(err)
	}

	// Its lists are not streamed, because no other test uses the verb list on ServiceCIDRs and AddressSlices.
	startControllerWith(t, "", []string{"KUBE_FEATURE_WatchListClient=false"}, "--kubeconfig", asServiceAccount(t), "--cluster-cidrs=10.77.0.0/16", "--allow-cluster-overlap=10.77.1.0/24")
	for _, c := range []struct{ name, cidr, want string }{
		{"services", services, "False OverlapsCluster: spec.cidr overlaps ServiceCIDR kubernetes (" + services + ")"},
		{"pods", pods, "False OverlapsCluster: spec.cidr overlaps podCIDR of Node " + name + " (" + pods + ")"},
		{"node", address + "/32", "False OverlapsCluster: spec.cidr overlaps address of Node " + name + " (" + address + "/32)"},
		{"named", "10.77.0.0/24", "False OverlapsCluster: spec.cidr overlaps --cluster-cidrs (10.77.0.0/16)"},
		{"allowed", "10.77.1.0/24", "True Serving"},
		{"adjacent", "10.78.0.0/24", "True Serving"},
	} {
		create(t, ns, network(c.name, fmt.Sprintf(`{cidr: %q}`, c.cidr))+gatedPod("on-"+c.name, c.name))
		waitCondition(t, ns, "network/"+c.name, "Ready", c.want)
		if strings.HasPrefix(c.want, "True") {
			waitReady(t, ns, "pod/on-"+c.name)
			continue
		}
		waitCondition(t, ns, "pod/on-"+c.name, bound, fmt.Sprintf("False NetworkNotReady: Network %q cannot serve: spec.cidr overlaps", c.name))
	}
	waitCondition(t, ns, "network/older", "Ready", "True OverlapsCluster: hands out addresses, but spec.cidr overlaps ServiceCIDR kubernetes ("+services+")")
	create(t, ns, gatedPod("second", "older"))
	waitReady(t, ns, "pod/second")
	// A Network that grows over such addresses after the first bind does not get them either.
	create(t, ns, network("grows", `{cidr: 10.97.0.0/24}`)+gatedPod("on-grows", "grows"))
	waitReady(t, ns, "pod/on-grows")
	run(t, ns, "patch", "network", "grows", "--type=merge", "-p", `{"spec":{"cidr":"10.96.0.0/15"}}`)
	waitCondition(t, ns, "network/grows", "Ready", "True OverlapsCluster")
	create(t, ns, gatedPod("on-grown", "grows"))
	waitReady(t, ns, "pod/on-grown")
	if got := addressOn(listPods(t, ns)["on-grown"], "grows"); !strings.HasPrefix(got, "10.97.") {
		t.Errorf("on-grown has %s, which a Service may use", got)
	}
	requireUnique(t, ns)
}
