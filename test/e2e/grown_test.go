//go:build e2e

package e2e

import (
	"net/netip"
	"testing"
)

// A Network with room for three pods grows, and its Pod2 is scaled up. Old pods, and pods with
// addresses of the new half, reach each other on three nodes. No pod is restarted.
func TestGrownNetwork(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "grown")
	create(t, ns, small+spread("g", 2, "{name: small}")+alone("alone", "node1", "small@eth0"))
	waitReady(t, ns, "pod2/g")
	waitRunning(t, ns, "alone")
	const selector = "app in (g,alone)"
	before := pods(t, ns, selector)
	run(t, ns, "patch", "network/small", "--type=merge", `--patch={"spec":{"cidr":"192.168.0.0/28"}}`)
	run(t, ns, "scale", "pod2/g", "--replicas=4")
	run(t, ns, "wait", "--for=jsonpath={.status.readyReplicas}=4", "--timeout="+patience.String(), "pod2/g")
	s := side{"g", "small", pods(t, ns, selector)}
	for name, was := range before {
		if s.pods[name].UID != was.UID {
			t.Errorf("%s is another pod", name)
		}
	}
	for _, name := range []string{"g-2", "g-3"} {
		if netip.MustParsePrefix("192.168.0.0/29").Contains(netip.MustParseAddr(s.address(name))) {
			t.Errorf("%s has %s, which is not in the new half", name, s.address(name))
		}
	}
	s.requireSpread(t)
	for _, from := range s.names() {
		s.requireReaches(t, ns, from, func(to string) string { return s.address(to) })
	}
	t.Run("the gateway answers a pod of the new half", func(t *testing.T) { requireGateway(t, ns, "g-3", "192.168.0.1") })
}

// small has room for three pods, and, as a /28, for seven more.
const small = `
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: small}
spec: {cidr: 192.168.0.0/29, exclude: [192.168.0.5-192.168.0.7]}
---
`
