//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/agent/veth"
)

// pair of a pod whose UID is u- and its name.
func pair(index int, name, network, pod string) veth.Port {
	return veth.Port{Owner: veth.Owner{ID: cni.ID{ContainerID: "c-" + pod, Interface: "net1"}, Network: network, PodUID: "u-" + pod, PodName: pod}, Name: name, Index: index, Up: true}
}

func placed(vni int32, last byte) tables.PlaceKey {
	return tables.PlaceKey{VNI: vni, MAC: dataplane.MAC{0x0a, 0x58, 192, 168, 0, last}}
}

// exampleNode has pod web-1 on two Networks with one CIDR, a pod whose port is closed, one that is
// gone, and one without a stored name.
func exampleNode() *snapshot {
	ip := func(last byte) tables.Address { return tables.AddressOf(netip.AddrFrom4([4]byte{192, 168, 0, last})) }
	node := netip.MustParseAddr("10.9.0.2")
	port := func(vni int32, last byte) tables.Port {
		return tables.Port{VNI: vni, MAC: placed(vni, last).MAC, IP: ip(last), Transit: tables.AddressOf(netip.AddrFrom4([4]byte{100, 64, byte(vni), last}))}
	}
	unnamed := pair(10, "pod2dddd", "default.blue", "db-0")
	unnamed.PodName = ""
	s := &snapshot{
		View: tables.View{
			Tables: tables.Tables{
				Ports: map[tables.PortKey]tables.Port{7: port(70001, 2), 8: port(70002, 2), 10: port(70001, 5), 12: port(70001, 6)},
				Places: map[tables.PlaceKey]tables.Place{placed(70001, 2): {IP: ip(2), Interface: 7}, placed(70001, 5): {IP: ip(5), Interface: 10},
					placed(70001, 10): {IP: ip(10), Node: tables.AddressOf(node)}, placed(70001, 9): {IP: ip(9), Node: tables.AddressOf(node)}, placed(70002, 2): {IP: ip(2), Interface: 8}},
				Networks: map[int32]tables.Network{70001: {MTU: 1450, Gateway: ip(1), Bits: 120, Egress: 1}, 70002: {MTU: 1450}},
			},
			Config: tables.Config{Local: netip.MustParseAddr("10.9.0.1"), VXLAN: 3, UDPPort: 4789, Gateway: 9},
			Wires:  map[netip.Addr]tables.Wire{node: {Interface: 2}, netip.MustParseAddr("10.9.0.10"): {Interface: 2}, netip.MustParseAddr("fd09::2"): {Interface: 99}, netip.MustParseAddr("fd09::3"): {}},
		},
		drops: map[bpf.Drop]uint64{{VNI: 70001, Interface: 7, Reason: "unknown"}: 12, {VNI: 70001, Interface: 10, Reason: "ip"}: 2, {Interface: 99, Reason: "stranger"}: 2,
			{VNI: 70001, Interface: 10, Reason: "unknown"}: 1},
		filtered: map[string]uint64{"node": 3, "stranger": 1, "api": 0},
		links:    map[uint32]string{2: "eth0", 3: "pod2vxlan", 7: "pod2aaaa", 8: "pod2bbbb", 9: "pod2gw", 10: "pod2dddd", 11: "pod2cccc"},
		down:     map[uint32]bool{10: true},
		pairs:    map[uint32]veth.Port{7: pair(7, "pod2aaaa", "default.blue", "web-1"), 8: pair(8, "pod2bbbb", "default.green", "web-1"), 10: unnamed, 11: pair(11, "pod2cccc", "other.blue", "web-1")},
	}
	s.complete()
	return s
}

func TestListings(t *testing.T) {
	old := exampleNode()
	old.Local, old.drops, old.filtered = netip.MustParseAddr("fd09::1"), nil, nil
	for _, tt := range []struct {
		table string
		of    *snapshot
		want  string
	}{
		{"", exampleNode(), `
Address of VXLAN packets:    10.9.0.1
UDP port of VXLAN packets:   4789
VXLAN device:                pod2vxlan
Gateway to the outside:      pod2gw
Networks:                    2
Ports:                       4 open, 1 closed
Places:                      3 on this node, 2 on other nodes
Nodes:                       4
Dropped packets:             21, unknown 13, node 3, stranger 3, ip 2
`},
		{"", old, `
Address of VXLAN packets:    fd09::1
UDP port of VXLAN packets:   4789
VXLAN device:                pod2vxlan
Gateway to the outside:      pod2gw
Networks:                    2
Ports:                       4 open, 1 closed
Places:                      3 on this node, 2 on other nodes
Nodes:                       4
Dropped packets:             0
`},
		{"", &snapshot{}, `
Address of VXLAN packets:    -
UDP port of VXLAN packets:   0
VXLAN device:                -
Gateway to the outside:      -
Networks:                    0
Ports:                       0 open, 0 closed
Places:                      0 on this node, 0 on other nodes
Nodes:                       0
Dropped packets:             0
`},
		{"ports", exampleNode(), `
INTERFACE      INDEX   VNI     NETWORK         ADDRESS       MAC                 TRANSIT        POD                 POD UID   IN POD   STATE
pod2aaaa       7       70001   default/blue    192.168.0.2   0a:58:c0:a8:00:02   100.64.113.2   default/web-1       u-web-1   net1     open
pod2bbbb       8       70002   default/green   192.168.0.2   0a:58:c0:a8:00:02   100.64.114.2   default/web-1       u-web-1   net1     open
pod2dddd       10      70001   default/blue    192.168.0.5   0a:58:c0:a8:00:05   100.64.113.5   default/(no name)   u-db-0    net1     down
pod2cccc       11      -       other/blue      -             -                   -              other/web-1         u-web-1   net1     closed: not in the table
12 (deleted)   12      70001   default/blue    192.168.0.6   0a:58:c0:a8:00:06   100.64.113.6   -                   -         -        deleted: only the table has it
`},
		{"places", exampleNode(), `
VNI     ADDRESS        MAC                 WHERE
70001   192.168.0.2    0a:58:c0:a8:00:02   interface pod2aaaa of pod default/web-1
70001   192.168.0.5    0a:58:c0:a8:00:05   interface pod2dddd (down) of pod default/(no name)
70001   192.168.0.9    0a:58:c0:a8:00:09   node 10.9.0.2
70001   192.168.0.10   0a:58:c0:a8:00:0a   node 10.9.0.2
70002   192.168.0.2    0a:58:c0:a8:00:02   interface pod2bbbb of pod default/web-1
`},
		{"networks", exampleNode(), `
VNI     NETWORK         MTU    GATEWAY       GATEWAY MAC         EGRESS   PLACES
70001   default/blue    1450   192.168.0.1   02:00:5e:01:11:71   NAT      4
70002   default/green   1450   -             02:00:5e:01:11:72   None     1
`},
		{"nodes", exampleNode(), `
NODE        INTERFACE      PLACES
10.9.0.2    eth0           2
10.9.0.10   eth0           0
fd09::2     99 (deleted)   0
fd09::3     -              0
`},
		{"drops", exampleNode(), `
PACKETS   REASON     VNI     INTERFACE      POD                 MEANING
12        unknown    70001   pod2aaaa       default/web-1       for an address that nobody has here, or a node that is not in the table of nodes
2         ip         70001   pod2dddd       default/(no name)   with another's IP address as source
2         stranger   -       99 (deleted)   -                   from an interface without an entry in the table of ports, or on a Network that this node does not know
1         unknown    70001   pod2dddd       default/(no name)   for an address that nobody has here, or a node that is not in the table of nodes
3         node       -       -              -                   from a Network to a node, by the rules of the node
1         stranger   -       -              -                   from a port without its program, by the rules of the node
`},
		{"ports", &snapshot{}, "There are no ports: no pod on this node is attached to an Overlay Network. pod2-cni attaches a pod when it starts.\n"},
		{"places", &snapshot{}, "There are no places: the agent knows no pod on the Networks of this node. A Network is on a node that has one of its pods.\n"},
		{"networks", &snapshot{}, "There are no Networks: no pod on this node is on an Overlay Network.\n"},
		{"nodes", &snapshot{}, "There are no other nodes: this node accepts VXLAN from nobody, and sends none.\n"},
		{"drops", &snapshot{}, "No packet was dropped since the tables were made.\n"},
	} {
		var out strings.Builder
		if err := listings[tt.table](tt.of, &out); err != nil {
			t.Error(err)
		}
		if got := out.String(); strings.TrimSpace(got) != strings.TrimSpace(tt.want) {
			t.Errorf("%q: got\n%s\nwant\n%s", tt.table, got, tt.want)
		}
	}
}

// A pod is found by each of its names. Each line is the interface where a trace begins.
func TestTraceFindsThePod(t *testing.T) {
	for pod, want := range map[string]string{
		"web-1":              "pod2aaaa pod2bbbb pod2cccc",
		"default/web-1":      "pod2aaaa pod2bbbb",
		"other/web-1":        "pod2cccc",
		"web":                "",
		"other/web-2":        "",
		"pod2bbbb":           "pod2bbbb",
		"u-db-0":             "pod2dddd",
		"192.168.0.2":        "pod2aaaa pod2bbbb",
		"::ffff:192.168.0.5": "pod2dddd",
		"192.168.0.9":        "",
		"":                   "",
	} {
		var out strings.Builder
		err := exampleNode().trace(&out, pod, netip.MustParseAddr("192.168.0.9"))
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", pod, err)
		}
		var found []string
		for line := range strings.Lines(out.String()) {
			if words := strings.Fields(line); len(words) > 2 && words[0] == "From" {
				found = append(found, words[2])
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%q: traces from %s, want %s", pod, got, want)
		}
	}
}

func TestTraceText(t *testing.T) {
	var out strings.Builder
	if err := exampleNode().trace(&out, "default/web-1", netip.MustParseAddr("192.168.0.5")); err != nil {
		t.Fatal(err)
	}
	const want = `From interface pod2aaaa of pod default/web-1 to 192.168.0.5:
  1. Sender: interface pod2aaaa of pod default/web-1 may send on VNI 70001 as 192.168.0.2 with MAC 0a:58:c0:a8:00:02. Other sources are dropped (mac, ip, arp, nd).
  2. Neighbour: 192.168.0.5 has MAC 0a:58:c0:a8:00:05. The programs answer the sender's question themselves.
  3. Size: IP packets of up to 1450 bytes pass. Larger ones are dropped (oversized).
  4. Delivered by interface pod2dddd (down) of pod default/(no name) to the pod.

From interface pod2bbbb of pod default/web-1 to 192.168.0.5:
  1. Sender: interface pod2bbbb of pod default/web-1 may send on VNI 70002 as 192.168.0.2 with MAC 0a:58:c0:a8:00:02. Other sources are dropped (mac, ip, arp, nd).
  2. Dropped (unknown): nobody has 192.168.0.5 on VNI 70002, and the sender has no gateway for it.
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Without the rules, a trace that needs them ends with an error. No listing says that nothing was dropped.
func TestTextsWithoutRules(t *testing.T) {
	s := exampleNode()
	s.unread, s.drops, s.filtered = errors.New("refused"), nil, nil
	for _, tt := range []struct{ to, want string }{{"9.9.9.9", "refused"}, {"192.168.0.5", "<nil>"}} {
		var out strings.Builder
		if err := s.trace(&out, "default/web-1", netip.MustParseAddr(tt.to)); fmt.Sprint(err) != tt.want || out.Len() == 0 {
			t.Errorf("to %s: %v, want %s\n%s", tt.to, err, tt.want, out.String())
		}
	}
	var out strings.Builder
	if err := s.listDrops(&out); fmt.Sprint(err) != "refused" || out.String() != "The programs dropped no packet since the tables were made.\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Each error names the next step. None of these needs a kernel.
func TestStatusErrors(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{status(nil, dir, "pods"), `unknown table "pods": must be ports, places, networks, nodes or drops`},
		{status(nil, dir, "ports"), "no maps in " + dir + "/v2: pod2-agent has not run on this node since it booted"},
		{trace(nil, dir, "web-1", "web-2"), `trace to "web-2": it is not an IP address`},
		{trace(nil, dir, "web-1", "192.168.0.2"), "no maps in " + dir + "/v2: pod2-agent has not run on this node since it booted"},
		{exampleNode().trace(nil, "a", netip.MustParseAddr("192.168.0.2")), `no port on this node belongs to "a": run this on the pod's node`},
	} {
		if tt.err == nil || !strings.HasPrefix(tt.err.Error(), tt.want) {
			t.Errorf("got  %v\nwant %s", tt.err, tt.want)
		}
	}
}

func TestEachReasonHasAMeaning(t *testing.T) {
	for _, reason := range bpf.Reasons[1:] {
		if bpf.Meanings[reason] == "" {
			t.Error(reason)
		}
	}
	if len(bpf.Meanings) != len(bpf.Reasons)-1 {
		t.Errorf("%d meanings of %d reasons", len(bpf.Meanings), len(bpf.Reasons)-1)
	}
}
