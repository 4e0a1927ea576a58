//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// grown is an agent of a node with a pod whose Network has grown.
func grown(m *memory) *agent {
	s := cluster("10.0.0.1")
	blue := dataplane.Network{Namespace: "default", Name: "blue", VNI: 1001, CIDR: netip.MustParsePrefix("192.168.0.0/28"), Gateway: netip.MustParseAddr("192.168.0.1"), MTU: 1450}
	a := newTestAgent(m, &s)
	a.ports = &plugged{here: []dataplane.Network{blue}, ports: []dataplane.Port{
		{Interface: 7, VNI: 1001, Pod: "default/a", IP: netip.MustParseAddr("192.168.0.2"), MAC: dataplane.MAC{2}, Route: blue.CIDR, Inner: "net1"}}}
	return a
}

// The routes that pods need are added, and count as changes. A Network that grows changes nothing else on the node.
func TestPodRoutesAreAdded(t *testing.T) {
	a := grown(&memory{})
	r := registered(a)
	needed := a.ports.(*plugged).ports
	for _, a.ports.(*plugged).ports = range [][]dataplane.Port{nil, needed} { // the Network grows after the first sync
		if err := a.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.ReplaceAll(metricsText(t, r, "pod2_agent_changes_total", "pod2_agent_repairs_total"), "  ", " ")
	if want := `pod2_agent_changes_total [name:"kind" value:"route"] 1
pod2_agent_changes_total [name:"kind" value:"table"] 1`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A route that a pod's network namespace refuses is reported. The node stays ready: the
// other pods are not affected.
func TestPodThatRefusesItsRoute(t *testing.T) {
	m := &memory{failed: errors.New("pod default/a: it has no route to 192.168.0.0/28: refused")}
	a := grown(m)
	r := registered(a)
	if err := a.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%v, %s, %s", a.ready(), a.problems, metricsText(t, r, "pod2_agent_problems"))
	if want := "<nil>, pod default/a: it has no route to 192.168.0.0/28: refused, pod2_agent_problems [] 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A step that fails does not stop the routes of pods.
func TestPodRoutesDoNotWaitForOthers(t *testing.T) {
	m := &memory{err: errors.New("refused")}
	a := grown(m)
	if err := a.sync(t.Context()); !errors.Is(err, m.err) {
		t.Fatal(err)
	}
	if len(m.pods) != 1 || m.pods[0].Pod != "default/a" {
		t.Errorf("got %v", m.pods)
	}
}
