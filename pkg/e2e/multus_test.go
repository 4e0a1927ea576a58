//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

// What Multus v4.2.3 and the CNI plugins v1.9.1 make of the ways to give a pod its
// default route over a Network: these are facts to build on, and a new version of
// either may change them.
func TestDefaultRouteByMultus(t *testing.T) {
	const (
		eth0    = "default via 10.244.1.1 dev eth0 metric 0\n10.244.1.0/24 via 10.244.1.1 dev eth0 metric 0\n10.244.1.1/32 dev eth0 metric 0"
		element = `{"name":"%s","namespace":"routes","ips":["192.168.0.%d/16"],"mac":"0a:58:c0:a8:00:%02x"%s}`
		last    = `, "routes": [{"dst": "0.0.0.0/0", "gw": "192.168.0.1", "priority": 4294967295}]`
		gateway = `,"default-route":["192.168.0.1"]`
	)
	ns := newNamespace(t, "routes")
	create(t, ns, definition("plain", "rt-plain", "1.0.0", "")+definition("last10", "rt-last10", "1.0.0", last)+
		definition("plain11", "rt-plain11", "1.1.0", "")+definition("last11", "rt-last11", "1.1.0", last))
	for i, c := range []struct{ name, annotation, network, more, want string }{
		{"eth0-plain", "v1.multus-cni.io/default-network", "plain", "", "192.168.0.0/16 dev eth0 metric 0"},
		{"eth0-asked", "v1.multus-cni.io/default-network", "plain", gateway, "default via 192.168.0.1 dev eth0 metric 0\n192.168.0.0/16 dev eth0 metric 0"},
		{"eth0-asked11", "v1.multus-cni.io/default-network", "plain11", gateway, ""},
		{"eth0-last10", "v1.multus-cni.io/default-network", "last10", "", "192.168.0.0/16 dev eth0 metric 0\ndefault via 192.168.0.1 dev eth0 metric 4294967295"},
		{"eth0-last11", "v1.multus-cni.io/default-network", "last11", "", "192.168.0.0/16 dev eth0 metric 0\ndefault via 192.168.0.1 dev eth0 metric 4294967295"},
		{"net1-plain", "k8s.v1.cni.cncf.io/networks", "plain", "", eth0 + "\n192.168.0.0/16 dev net1 metric 0"},
		{"net1-asked", "k8s.v1.cni.cncf.io/networks", "plain", gateway, eth0 + "\n192.168.0.0/16 dev net1 metric 0"},
		{"net1-last10", "k8s.v1.cni.cncf.io/networks", "last10", "", eth0 + "\n192.168.0.0/16 dev net1 metric 0\ndefault via 192.168.0.1 dev net1 metric 4294967295"},
		{"net1-last11", "k8s.v1.cni.cncf.io/networks", "last11", "", eth0 + "\n192.168.0.0/16 dev net1 metric 0\ndefault via 192.168.0.1 dev net1 metric 4294967295"},
	} {
		t.Run(c.name, func(t *testing.T) {
			elements := fmt.Sprintf("["+element+"]", c.network, 10+i, 10+i, c.more)
			create(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {%s: '%s'}}
spec:
  nodeName: node1
  terminationGracePeriodSeconds: 1
  containers: [{name: probe, image: "netprobe:e2e", imagePullPolicy: Never, args: [serve]}]
`, c.name, c.annotation, elements))
			run(t, ns, "wait", "--for=jsonpath={.status.phase}=Running", "--timeout="+patience.String(), "pod/"+c.name)
			if got := probe(t, ns, c.name, "routes"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s\nlinks\n%s", got, c.want, probe(t, ns, c.name, "links"))
			}
		})
	}
}
