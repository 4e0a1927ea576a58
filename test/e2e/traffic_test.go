//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Two Networks have the same CIDR. Each has a Pod2 with replicas on all three nodes, and both
// Pod2s have the same addresses. green has one more replica, whose address no pod has on blue.
func TestTwoNetworksOfOneCIDR(t *testing.T) {
	ns := newNamespace(t, "traffic")
	create(t, ns, networks+spread("b", 3, "{name: blue}")+spread("g", 4, "{name: green}"))
	waitReady(t, ns, "pod2/b", "pod2/g")
	sides := []side{{"b", "blue", pods(t, ns, "app=b")}, {"g", "green", pods(t, ns, "app=g")}}
	for _, s := range sides {
		s.requireSpread(t)
	}
	t.Run("by address", func(t *testing.T) {
		for _, s := range sides {
			for _, from := range s.names() {
				s.requireReaches(t, ns, from, func(to string) string { return s.address(to) })
			}
		}
	})
	t.Run("by name", func(t *testing.T) {
		for _, s := range sides {
			for _, from := range s.names() {
				s.requireReaches(t, ns, from, func(to string) string { return s.name(ns, to) })
			}
		}
	})
	t.Run("no pod of the other Network", func(t *testing.T) {
		only := sides[1].address("g-3")
		for _, from := range sides[0].names() {
			if got, want := probe(t, ns, from, "get", only+":8080"), only+":8080: no answer"; got != want {
				t.Errorf("%s: got %s, want %s", from, got, want)
			}
		}
	})
	t.Run("a name of the other Network leads to the pod with its address on the own Network", func(t *testing.T) {
		blue, green := sides[0], sides[1]
		from := blue.names()[0]
		for _, to := range green.names() {
			target := green.name(ns, to) + ":8080"
			want := target + ": no answer"
			for _, own := range blue.names() {
				if blue.address(own) == green.address(to) {
					want = fmt.Sprintf("%s: %s at %s, asked by %s", target, own, blue.address(own), blue.address(from))
				}
			}
			if got := probe(t, ns, from, "get", target); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
	t.Run("the gateway", func(t *testing.T) {
		for _, s := range sides {
			for _, from := range s.names() {
				requireGateway(t, ns, from, "192.168.0.1")
			}
		}
	})
	t.Run("nothing is flooded", func(t *testing.T) { requireNoFlood(t, ns, sides) })
}

// side is a Pod2 on one Network.
type side struct {
	app, network string
	pods         map[string]pod
}

func (s side) names() []string { return slices.Sorted(maps.Keys(s.pods)) }

func (s side) address(name string) string {
	return s.pods[name].Published[s.network].Address.Addr().String()
}

// name of a replica in DNS.
func (s side) name(namespace, replica string) string {
	return fmt.Sprintf("%s.%s-%s.%s.svc.cluster.local", replica, s.app, s.network, namespace)
}

// requireSpread expects a replica on each node.
func (s side) requireSpread(t *testing.T) {
	t.Helper()
	on := map[string]bool{}
	for _, p := range s.pods {
		on[p.Node] = true
	}
	if len(on) != 3 {
		t.Fatalf("the replicas of %s are on %v", s.app, on)
	}
}

// requireReaches sends a request to every replica, at the target for its name. It expects each
// to answer from its own address.
func (s side) requireReaches(t *testing.T, ns, from string, target func(to string) string) {
	t.Helper()
	args := []string{"get"}
	var want []string
	for _, to := range s.names() {
		at := hostPort(target(to), 8080)
		args = append(args, at)
		want = append(want, fmt.Sprintf("%s: %s at %s, asked by %s", at, to, s.address(to), s.address(from)))
	}
	eventually(t, "from "+from, func() (string, error) {
		if got := probe(t, ns, from, args...); got != strings.Join(want, "\n") {
			return fmt.Sprintf("got\n%s\nwant\n%s\n", got, strings.Join(want, "\n")), nil
		}
		return "", nil
	})
}

// requireGateway waits until the gateway answers.
func requireGateway(t *testing.T, ns, from, gateway string) {
	t.Helper()
	eventually(t, "the gateway answers "+from, func() (string, error) {
		if got := probe(t, ns, from, "echo", gateway); got != gateway+": answers" {
			return got, nil
		}
		return "", nil
	})
}

// hostPort adds brackets to an IPv6 address.
func hostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// spread is a Pod2 whose replicas are spread over the nodes, with a skew of at most one.
func spread(name string, replicas int, networks string) string {
	return pod2(name, replicas, networks, "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, "+
		"whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: "+name+"}}}]")
}
