//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

// A pod with NET_RAW sends with the MAC address or the IP address of another pod, and claims the other's IP address for its own
// MAC address. No pod of an Overlay Network receives any of it, on its node or on another. On a Network of type CNI with a
// bridge, the same frames arrive.
func TestForgedAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "forged")
	const all = "blue, six, wire, wire6"
	create(t, ns, networks+six+bridged+alone("thief", "node1", all)+alone("friend", "node1", all)+alone("near", "node1", all)+
		alone("far", "node2", "blue, six"))
	waitRunning(t, ns, "thief", "friend", "near", "far")
	at := pods(t, ns, "app=alone")
	for i, network := range []string{"blue", "six", "wire", "wire6"} {
		dev, overlay := fmt.Sprintf("net%d", i+1), i < 2
		thief, friend := at["thief"].Published[network], at["friend"].Published[network]
		own, other := thief.Address.Addr().String(), friend.Address.Addr().String()
		victims, heardAll := []string{"near", "far"}, "own addresses"
		if !overlay {
			victims, heardAll = victims[:1], "another's MAC address\nanother's IP address\nown addresses"
		}
		for _, name := range victims {
			t.Run(name+" on "+network, func(t *testing.T) {
				victim := at[name].Published[network]
				to := hostPort(victim.Address.Addr().String(), 4000)
				for pod, address := range map[string]string{"thief": own, "friend": other} {
					requireAnswer(t, ns, name, hostPort(address, 8080), pod+" at "+address) // so it knows their MAC addresses
				}
				heard := hearing(t, ns, name, ":4000", "own addresses")
				probe(t, ns, "thief", "forge", dev, friend.MAC, own, victim.MAC, to, "another's MAC address")
				probe(t, ns, "thief", "forge", dev, thief.MAC, other, victim.MAC, to, "another's IP address")
				probe(t, ns, "thief", "forge", dev, thief.MAC, other, victim.MAC, to) // ARP, or a neighbour advertisement
				probe(t, ns, "thief", "forge", dev, thief.MAC, own, victim.MAC, to, "own addresses")
				if got := heard(); got != heardAll {
					t.Errorf("the pod heard\n%s\nwant\n%s", got, heardAll)
				}
				known := func() string { return linesOf(probe(t, ns, name, "neighbours"), other+" ") }
				if overlay {
					if got, want := known(), other+" "+friend.MAC; got != want {
						t.Errorf("it knows %q, want %q", got, want)
					}
					return
				}
				eventually(t, "the pod believes the forged address", func() (string, error) { // a kernel ignores one that follows the true one within a second
					got, want := known(), other+" "+thief.MAC
					if got == want {
						return "", nil
					}
					probe(t, ns, "thief", "forge", dev, thief.MAC, other, victim.MAC, to)
					return fmt.Sprintf("it knows %q, want %q", got, want), nil
				})
			})
		}
		if !overlay {
			continue
		}
		for _, reason := range []string{"mac", "ip", map[string]string{"blue": "arp", "six": "nd"}[network]} {
			got := dropped(t, "172.18.0.11", fmt.Sprintf(`network=%q,network_namespace=%q,reason=%q`, network, ns, reason))
			if got != len(victims) {
				t.Errorf("%s: %d packets were dropped with the reason %s, want %d", network, got, reason, len(victims))
			}
		}
	}
}
