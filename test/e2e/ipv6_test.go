//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// An IPv6 Network works like an IPv4 Network.
func TestIPv6Network(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "six")
	create(t, ns, six+spread("s", 3, "{name: six}")+alone("open", "node2", "six@eth0"))
	waitReady(t, ns, "pod2/s")
	waitRunning(t, ns, "open")
	s := side{"s", "six", pods(t, ns, "app=s")}
	s.requireSpread(t)
	t.Run("by address", func(t *testing.T) {
		for _, from := range s.names() {
			s.requireReaches(t, ns, from, func(to string) string { return s.address(to) })
		}
	})
	t.Run("by name", func(t *testing.T) {
		s.requireReaches(t, ns, "s-0", func(to string) string { return fmt.Sprintf("%s.s-six.%s.svc.cluster.local", to, ns) })
	})
	t.Run("the gateway", func(t *testing.T) {
		requireGateway(t, ns, "s-0", "fd00:77::1")
	})
	t.Run("the world sees the node's address", func(t *testing.T) {
		eventually(t, "egress", func() (string, error) {
			got := probe(t, ns, "open", "get", "["+world6+"]:80")
			if !strings.HasSuffix(got, " at "+world6+", asked by fd00:18::12") {
				return got, nil
			}
			return "", nil
		})
	})
}

const six = `
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: six}
spec: {cidr: "fd00:77::/64"}
---
`
