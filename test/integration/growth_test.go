//go:build integration

package integration

import "testing"

// A pod runs with an earlier, smaller CIDR. The broadcast address of that CIDR stays
// reserved when the CIDR grows: no pod gets it, even on request. The condition names the
// pod that must be recreated.
func TestGrowthKeepsOldBroadcastAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/30, attachment: {type: CNI, config: '{"cniVersion":"1.0.0","type":"macvlan"}'}}`)+gatedPod("old", "blue"))
	waitReady(t, ns, "pod/old")
	run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"cidr":"10.0.0.0/29"}}`)
	create(t, ns, gatedPod("named", "blue=10.0.0.3"))
	waitCondition(t, ns, "pod/named", bound, "AddressRefused: the wanted address 10.0.0.3 was the broadcast address in 10.0.0.0/30")
	create(t, ns, gatedPod("new", "blue"))
	waitAddresses(t, ns, "new: blue=10.0.0.4/29\nold: blue=10.0.0.2/30")
	waitCondition(t, ns, "network/blue", "Grown", "False PodsOutdated: these pods run with an earlier, smaller CIDR and may not reach all of 10.0.0.0/29; recreate them: old")
	run(t, ns, "delete", "pod", "old", "--now")
	waitCondition(t, ns, "network/blue", "Grown", "True PodsCurrent")
}

func TestOnRequestAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/29, onRequest: ["10.0.0.2-10.0.0.3"]}`)+gatedPod("any", "blue")+gatedPod("named", "blue=10.0.0.2"))
	waitAddresses(t, ns, "any: blue=10.0.0.4/29\nnamed: blue=10.0.0.2/29")
}
