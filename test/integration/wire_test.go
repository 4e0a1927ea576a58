//go:build integration

package integration

import "testing"

// Two tenants on one VLAN: the condition of each Network names the other one. The
// controller has the rights of its role. Not parallel: it serves all namespaces.
func TestNetworksOnOneWireAreToldOfEachOther(t *testing.T) {
	install(t)
	ns, other := newNamespace(t), newNamespace(t)
	startController(t, "", "--kubeconfig", asServiceAccount(t))
	const config = `attachment: {type: CNI, config: '{"type":"macvlan","master":"eth1.7"}'}`
	create(t, ns, network("blue", `{cidr: 10.55.0.0/24, `+config+`}`)+gatedPod("ours", "blue"))
	waitCondition(t, ns, "network/blue", attachable, "True Defined: ")
	create(t, other, network("red", `{cidr: 10.55.0.0/16, `+config+`}`)+gatedPod("theirs", "red"))
	waitCondition(t, ns, "network/blue", attachable, "True SharedWire: pods are attached by NetworkAttachmentDefinition blue; Network "+other+"/red hands out")
	waitCondition(t, other, "network/red", attachable, "True SharedWire: pods are attached by NetworkAttachmentDefinition red; Network "+ns+"/blue hands out")
	waitReady(t, ns, "pod/ours")
	waitReady(t, other, "pod/theirs")
	if ours, theirs := addressOn(listPods(t, ns)["ours"], "blue"), addressOn(listPods(t, other)["theirs"], "red"); ours != theirs {
		t.Errorf("the addresses are %s and %s, want two equal ones: the condition warns of a conflict", ours, theirs)
	}
	run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"exclude":["10.55.0.0/24"]}}`)
	waitCondition(t, ns, "network/blue", attachable, "True Defined: ")
	waitCondition(t, other, "network/red", attachable, "True Defined: ")
}
