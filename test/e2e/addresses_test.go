//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// The controller runs on these nodes from its manifests. It publishes addresses, and writes
// the NetworkAttachmentDefinitions with which Multus puts them on interfaces.
func TestPublishedIsAttached(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "attached")
	create(t, ns, networks)
	create(t, ns, pod2("web", 3, "{name: blue}, {name: green, addresses: [192.168.9.9]}", ""))
	waitReady(t, ns, "pod2/web")

	before := pods(t, ns, "app=web")
	requireAttached(t, ns, before)
	if got := before["web-0"].Published["green"].Address.String(); got != "192.168.9.9/16" {
		t.Errorf("web-0 asked for 192.168.9.9 on green and has %s", got)
	}
	// Of two equal routes, the first gets all packets: see the limits in docs/concepts/limitations.md.
	if got, want := linesOf(probe(t, ns, "web-0", "routes"), "192.168"), "192.168.0.0/16 dev net1 metric 0\n192.168.0.0/16 dev net2 metric 0"; got != want {
		t.Errorf("web-0 has the routes\n%s\nwant\n%s", got, want)
	}
	if got, want := probe(t, ns, "web-0", "source", "192.168.9.10"), "192.168.9.10: "+before["web-0"].Published["blue"].Address.Addr().String(); got != want {
		t.Errorf("its source address for a pod on green is %s, want %s", got, want)
	}

	run(t, ns, "delete", "pod", "web-1")
	eventually(t, "another web-1", func() (string, error) {
		out, err := kubectl("", "--namespace", ns, "get", "pod", "web-1", "--output=jsonpath={.metadata.uid}")
		if out == before["web-1"].UID {
			return "it is still the same pod", err
		}
		return "", err
	})
	waitReady(t, ns, "pod/web-1", "pod2/web")
	after := pods(t, ns, "app=web")
	requireAttached(t, ns, after)
	if got, want := fmt.Sprint(after["web-1"].Published), fmt.Sprint(before["web-1"].Published); got != want {
		t.Errorf("web-1 came back with %s, and had %s", got, want)
	}
}

// requireAttached compares the published addresses of pods with their interfaces.
func requireAttached(t *testing.T, ns string, all map[string]pod) {
	t.Helper()
	if len(all) != 3 {
		t.Fatalf("%d pods", len(all))
	}
	for name, p := range all {
		var want []string
		for i, network := range []string{"blue", "green"} {
			a := p.Published[network]
			want = append(want, fmt.Sprintf("net%d up mtu 1450 %s %s", i+1, a.MAC, a.Address))
		}
		if got := linesOf(probe(t, ns, name, "links"), "net"); got != strings.Join(want, "\n") {
			t.Errorf("%s has\n%s\nand publishes\n%s", name, got, strings.Join(want, "\n"))
		}
	}
}

// Two Networks have the same CIDR, and their pods have the same addresses. Each pod reaches
// those of its own Network. All are on one node.
func TestSameAddressesOnTwoNetworks(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "same-addresses")
	create(t, ns, networks)
	create(t, ns, pod2("a", 2, "{name: blue, addresses: [192.168.1.1, 192.168.1.2]}", "nodeSelector: {kubernetes.io/hostname: node1}")+
		pod2("b", 2, "{name: green, addresses: [192.168.1.1, 192.168.1.2]}", "nodeSelector: {kubernetes.io/hostname: node1}"))
	waitReady(t, ns, "pod2/a", "pod2/b")
	for _, name := range []string{"a", "b"} {
		requireProbe(t, ns, name+"-0", fmt.Sprintf("192.168.1.2:8080: %s-1 at 192.168.1.2, asked by 192.168.1.1", name), "get", "192.168.1.2:8080")
	}
}
