//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// This test records how Multus v4.2.3 and the CNI plugins v1.9.1 give a pod its default route
// over a Network. The controller relies on these facts; a new version may change them. For
// each pod, the test has its routes, and its source address for packets to the world.
//
//	eth0-*   the annotation v1.multus-cni.io/default-network: eth0 is on the Network
//	net1-*   k8s.v1.cni.cncf.io/networks: net1 is on the Network, eth0 on the nodes' own
//	plain    the definition has no routes
//	asked    the same, but the pod's element has "default-route"
//	last     the definition has a default route with the highest metric, so it comes last
func TestDefaultRouteByMultus(t *testing.T) {
	t.Parallel()
	const (
		route   = "default via 192.168.0.1 dev %s metric %d\n"
		subnet  = "192.168.0.0/16 dev %s metric 0\n"
		eth0    = "default via 10.244.1.1 dev eth0 metric 0\n%s10.244.1.0/24 via 10.244.1.1 dev eth0 metric 0\n10.244.1.1/32 dev eth0 metric 0\n"
		own     = "192.168.0.10"
		nodes   = "10.244.1"
		gateway = `,"default-route":["192.168.0.1"]`
		first   = "v1.multus-cni.io/default-network"
		second  = "k8s.v1.cni.cncf.io/networks"
		highest = 1<<32 - 1
	)
	ns := newNamespace(t, "routes")
	create(t, ns, definitions())
	for _, c := range []struct{ name, annotation, network, more, also, want, source string }{
		{"eth0-plain", first, "plain", "", "", fmt.Sprintf(subnet, "eth0"), "network is unreachable"},
		{"eth0-asked", first, "plain", gateway, "", fmt.Sprintf(route+subnet, "eth0", 0, "eth0"), own},
		{"eth0-asked-net1-plain", first, "plain", gateway, "plain", fmt.Sprintf(route+subnet+subnet, "eth0", 0, "eth0", "net1"), own},
		{"eth0-asked-net1-last", first, "plain", gateway, "last", fmt.Sprintf(route+route+subnet+subnet, "eth0", 0, "net1", highest, "eth0", "net1"), own},
		{"eth0-last", first, "last", "", "", fmt.Sprintf(route+subnet, "eth0", highest, "eth0"), own},
		{"eth0-last11", first, "last11", "", "", fmt.Sprintf(route+subnet, "eth0", highest, "eth0"), own},
		// With one metric they become one route with two next hops, and each flow uses either.
		{"eth0-last-net1-last", first, "last", "", "last", fmt.Sprintf(route+route+subnet+subnet, "net1", highest, "eth0", highest, "eth0", "net1"), "192.168.0.1"},
		{"net1-plain", second, "plain", "", "", fmt.Sprintf(eth0+subnet, "", "net1"), nodes},
		{"net1-asked", second, "plain", gateway, "", fmt.Sprintf(eth0+subnet, "", "net1"), nodes},
		{"net1-last", second, "last", "", "", fmt.Sprintf(eth0+subnet, fmt.Sprintf(route, "net1", highest), "net1"), nodes},
		{"net1-last11", second, "last11", "", "", fmt.Sprintf(eth0+subnet, fmt.Sprintf(route, "net1", highest), "net1"), nodes},
	} {
		t.Run(c.name, func(t *testing.T) {
			annotations := map[string]string{c.annotation: element(c.network, 10, c.more)}
			if c.also != "" {
				annotations[second] = element(c.also, 11, "")
			}
			create(t, ns, annotated(t, c.name, annotations))
			run(t, ns, "wait", "--for=jsonpath={.status.phase}=Running", "--timeout="+patience.String(), "pod/"+c.name)
			if got := probe(t, ns, c.name, "routes"); got+"\n" != c.want {
				t.Errorf("got\n%s\nwant\n%s\nlinks\n%s", got, c.want, probe(t, ns, c.name, "links"))
			}
			if got := probe(t, ns, c.name, "source", "203.0.113.10"); !strings.HasPrefix(got, "203.0.113.10: "+c.source) {
				t.Errorf("its source address for the world: %s; want %s", got, c.source)
			}
			run(t, ns, "delete", "pod", c.name)
		})
	}
}

// If an element asks for the default route, Multus does not support version 1.1.0. So
// definitions have 1.0.0.
func TestDefaultRouteNeedsVersion10(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "version")
	create(t, ns, definitions())
	create(t, ns, annotated(t, "asked11", map[string]string{
		"v1.multus-cni.io/default-network": strings.Replace(element("plain11", 10, `,"default-route":["192.168.0.1"]`), "routes", ns, 1)}))
	const want = "error deleting default gateway in cache: not supported version: 1.1.0"
	eventually(t, "an event says "+want, func() (string, error) {
		out, err := kubectl("", "--namespace", ns, "get", "events", "--output=jsonpath={.items[*].message}")
		if strings.Contains(out, want) {
			return "", err
		}
		return "events say " + out, err
	})
}

// definitions are the four from which the tests above choose.
func definitions() string {
	const last = `, "routes": [{"dst": "0.0.0.0/0", "gw": "192.168.0.1", "priority": 4294967295}]`
	return definition("plain", "rt-plain", "1.0.0", "") + definition("last", "rt-last", "1.0.0", last) +
		definition("plain11", "rt-plain11", "1.1.0", "") + definition("last11", "rt-last11", "1.1.0", last)
}

// element is the value of either annotation: one Network, with more added.
func element(network string, host int, more string) string {
	return fmt.Sprintf(`[{"name":"%s","namespace":"routes","ips":["192.168.0.%d/16"],"mac":"0a:58:c0:a8:00:%02x"%s}]`, network, host, host, more)
}

// annotated is a manifest of a pod on node1.
func annotated(t *testing.T, name string, annotations map[string]string) string {
	t.Helper()
	text, err := json.Marshal(annotations)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(strings.Replace(server(name, "node1"), "{name: "+name+"}", "{name: "+name+", annotations: "+string(text)+"}", 1),
		// The node cannot reach a pod whose eth0 is on a Network.
		"    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}\n", "", 1)
}
