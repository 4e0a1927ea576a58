package tables

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Changes of the events below the line ---, and the problems after them.
func TestChanges(t *testing.T) {
	const blue = "node 10.0.0.1\nnetwork blue 1001 192.168.0.0/24\n"
	const a = blue + "pod a blue=192.168.0.2\nport 7 u-a blue\n"
	const ab = a + "slice blue 1 192.168.0.3=10.0.0.2\n"
	for _, tt := range []struct{ name, in, want string }{
		{"addresses of nodes: those of this node and of another family do not count", "node 10.0.0.1\n---\nnodes s1 10.0.0.1 fd0a::1=10.0.0.1 10.0.0.2 fd0a::2=10.0.0.2 fd0a::3\nnodes s1 fd0a::2=10.0.0.2\nnodes- s1", `
			nodes set 10.0.0.2
			nodes delete 10.0.0.2`},
		{"a host in two slices of nodes", "node 10.0.0.1\nnodes s1 10.0.0.2\nnodes s2 10.0.0.2\n---\nnodes- s1\nnodes s2", `
			nodes delete 10.0.0.2`},
		{"the first pod here: its port comes first, the Network is complete before it opens", "node 10.0.0.1\nslice blue 1 192.168.0.3=10.0.0.2\npod a blue=192.168.0.2\nport 7 u-a blue\n---\nnetwork blue 1001 192.168.0.0/24", `
			ports set 7 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 7 192.168.0.2
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.2 192.168.0.3
			networks set 1001 -> mtu 1450 gateway 192.168.0.1/24`},
		{"a pod without its port, and the port", blue + "---\npod a blue=192.168.0.2\nport 7 u-a blue", `
			networks set 1001 -> mtu 1450 gateway 192.168.0.1/24
			ports set 7 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 7 192.168.0.2`},
		{"a port without its pod is closed", blue + "---\nport 7 u-a blue", `
			networks set 1001 -> mtu 1450 gateway 192.168.0.1/24`},
		{"the port of an earlier pod with this name is closed", a + "---\npod a blue=192.168.0.2 uid=u-new", `
			places delete 1001 0a:58:c0:a8:00:02
			ports delete 7`},
		{"an address that moves is one set, and only that entry is written", ab + "slice blue 1 192.168.0.3=10.0.0.2 192.168.0.4=10.0.0.2\n---\nslice blue 1 192.168.0.3=10.0.0.3 192.168.0.4=10.0.0.2", `
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.3 192.168.0.3`},
		{"an address that moves to another slice stays", ab + "---\nslice blue 2 192.168.0.3=10.0.0.2\nslice blue 1", ``},
		{"an address in two slices: the higher name, and the other after it", ab + "---\nslice blue 2 192.168.0.3=10.0.0.3\nslice blue 0.5 192.168.0.3=10.0.0.4\nslice- blue 2", `
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.3 192.168.0.3
			places set 1001 0a:58:c0:a8:00:03 -> node 10.0.0.2 192.168.0.3`},
		{"away from here: the place of the pod stays until the pod is gone", a + "pod z blue=192.168.0.9\n---\nslice blue 1 192.168.0.2=10.0.0.2\npod- a", `
			places set 1001 0a:58:c0:a8:00:02 -> node 10.0.0.2 192.168.0.2
			ports delete 7`},
		{"to here: the slice lags behind", ab + "---\npod b blue=192.168.0.3\nport 8 u-b blue\nslice blue 1 192.168.0.3=10.0.0.1", `
			places delete 1001 0a:58:c0:a8:00:03
			ports set 8 -> 1001 0a:58:c0:a8:00:03 192.168.0.3
			places set 1001 0a:58:c0:a8:00:03 -> port 8 192.168.0.3`},
		{"the last pod here is deleted: its port keeps the Network open", ab + "---\npod- a\nport- 7", `
			places delete 1001 0a:58:c0:a8:00:02
			ports delete 7
			places delete 1001 0a:58:c0:a8:00:03
			networks delete 1001`},
		{"the slices of a Network are removed at once", ab + "---\nleave blue\npod- a", `
			places delete 1001 0a:58:c0:a8:00:02
			places delete 1001 0a:58:c0:a8:00:03
			networks delete 1001
			ports delete 7`},
		{"an index that is used again: the place of the old pod is removed first", ab + "pod c blue=192.168.0.4\n---\nport 7 u-c blue", `
			places delete 1001 0a:58:c0:a8:00:02
			ports set 7 -> 1001 0a:58:c0:a8:00:04 192.168.0.4
			places set 1001 0a:58:c0:a8:00:04 -> port 7 192.168.0.4`},
		{"an index that is used again, and an earlier port of the old pod", a + "port 6 u-a blue\npod c blue=192.168.0.4\n---\nport 7 u-c blue", `
			ports set 6 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 6 192.168.0.2
			ports set 7 -> 1001 0a:58:c0:a8:00:04 192.168.0.4
			places set 1001 0a:58:c0:a8:00:04 -> port 7 192.168.0.4`},
		{"a second port of a pod: the newest", a + "---\nport 8 u-a blue", `
			ports set 8 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 8 192.168.0.2
			ports delete 7`},
		{"two pods that have one address: the newer has it, and the older again after it", a + "port 8 u-c blue\n---\npod c blue=192.168.0.2 created=5\npod- c", `
			ports set 8 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 8 192.168.0.2
			ports delete 7
			ports set 7 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 7 192.168.0.2
			ports delete 8`},
		{"the loser's port is closed", a + "---\npod c blue=192.168.0.2 created=5", `
			places delete 1001 0a:58:c0:a8:00:02
			ports delete 7
			problem: Network default/blue: pods a and c both have address 192.168.0.2; the newer pod, c, receives its packets`},
		{"two pods that have one MAC address, of one age: the higher UID", a + "---\npod c blue=192.168.0.4 mac=0a:58:c0:a8:00:02", `
			places delete 1001 0a:58:c0:a8:00:02
			ports delete 7
			problem: Network default/blue: pods a and c both have MAC address 0a:58:c0:a8:00:02; the newer pod, c, receives its packets`},
		{"two addresses that have one MAC address: the lower one", "node 10.0.0.1\nnetwork six 1001 fd00::/64\npod a six=fd00::2\n---\nslice six 1 fd00::1:0:3=10.0.0.2\nslice six 2 fd00::3=10.0.0.3", `
			places set 1001 0a:58:00:00:00:03 -> node 10.0.0.2 fd00::1:0:3
			places set 1001 0a:58:00:00:00:03 -> node 10.0.0.3 fd00::3
			problem: Network default/six: addresses fd00::3 and fd00::1:0:3 both have MAC address 0a:58:00:00:00:03; only the first receives packets: recreate the pod that has the other`},
		{"two addresses that have one MAC address: the pod here", "node 10.0.0.1\nnetwork six 1001 fd00::/64\npod a six=fd00::1:0:3\nport 7 u-a six\n---\nslice six 1 fd00::3=10.0.0.2", `
			problem: Network default/six: addresses fd00::1:0:3 and fd00::3 both have MAC address 0a:58:00:00:00:03; only the first receives packets: recreate the pod that has the other`},
		{"addresses that do not count: outside, the gateway's, its MAC address", a + "---\nslice blue 1 10.0.0.3=10.0.0.2 192.168.0.1=10.0.0.2\npod d blue=192.168.0.4 mac=02:00:5e:00:03:e9\npod e blue=192.168.0.1\nport 8 u-e blue", ``},
		{"slices of an earlier Network with this name do not count", ab + "---\nslice blue 2 owner=u2 192.168.0.9=10.0.0.2\nslice blue 1 owner=u2 192.168.0.3=10.0.0.2", `
			places delete 1001 0a:58:c0:a8:00:03`},
		{"another namespace: its addresses are on no Network, and the pod of this one has no port there", a + "network blue 1002 192.168.0.0/24 ns=other\nport 6 u-x blue ns=other\n---\nslice blue 1 192.168.0.3=10.0.0.2 ns=third\nport 8 u-a blue ns=other", ``},
		{"a Network that is recreated with another VNI", a + "---\nnetwork blue 1002 192.168.0.0/24 owner=u2 name=1\nnetwork- blue", `
			places delete 1001 0a:58:c0:a8:00:02
			networks delete 1001
			ports set 7 -> 1002 0a:58:c0:a8:00:02 192.168.0.2
			places set 1002 0a:58:c0:a8:00:02 -> port 7 192.168.0.2
			networks set 1002 -> mtu 1450 gateway 192.168.0.1/24`},
		{"a Network grows", a + "slice blue 1 192.168.1.3=10.0.0.2\n---\nnetwork blue 1001 192.168.0.0/23", `
			places set 1001 0a:58:c0:a8:01:03 -> node 10.0.0.2 192.168.1.3
			networks set 1001 -> mtu 1450 gateway 192.168.0.1/23`},
		{"another MTU", ab + "---\nnetwork blue 1001 192.168.0.0/24 mtu=1400", `
			networks set 1001 -> mtu 1400 gateway 192.168.0.1/24`},
		{"egress", ab + "---\nnetwork blue 1001 192.168.0.0/24 egress=NAT", `
			networks set 1001 -> mtu 1450 gateway 192.168.0.1/24 egress`},
		{"two Networks of one VNI: the first name", a + "---\nnetwork alt 1001 192.168.0.0/16", `
			places delete 1001 0a:58:c0:a8:00:02
			networks delete 1001
			ports delete 7
			problem: Networks default/alt and default/blue both have VNI 1001; only the first is served`},
		{"a Network without a gateway", "node 10.0.0.1\nnetwork one 1001 192.168.0.2/32\n---\npod a one=192.168.0.2", `
			networks set 1001 -> mtu 1450`},
		{"a host of another family", ab + "---\nslice blue 1 192.168.0.3=fd0a::2", `
			places delete 1001 0a:58:c0:a8:00:03
			problem: Network default/blue: the node with the address fd0a::2 has no address that this node, 10.0.0.1, can send VXLAN to; its pods are unreachable`},
		{"the address of this node", ab + "---\nslice blue 1 192.168.0.3=10.0.0.1", `
			places delete 1001 0a:58:c0:a8:00:03`},
		{"this node loses its address: nothing changes", ab + "---\nnode-", ``},
		{"this node changes its family", "nodes s1 10.0.0.1 10.0.0.2 fd0a::2\n" + ab + "slice blue 2 192.168.0.4=fd0a::2\n---\nnode fd0a::1", `
			nodes set fd0a::2
			places delete 1001 0a:58:c0:a8:00:03
			places set 1001 0a:58:c0:a8:00:04 -> node fd0a::2 192.168.0.4
			nodes delete 10.0.0.2
			problem: Network default/blue: the node with the address 10.0.0.2 has no address that this node, fd0a::1, can send VXLAN to; its pods are unreachable`},
		{"a late deletion of an earlier pod", a + "pod a uid=u-new blue=192.168.0.2\n---\npod- a uid=u-a", ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, got, shown := newWorld(), "", false
			for line := range strings.Lines(tt.in) {
				if line = strings.TrimSpace(line); line == "---" {
					shown = true
					continue
				}
				changes := w.event(t, line)
				w.apply(t, changes)
				if shown {
					got += render(changes)
				}
			}
			for _, problem := range w.desired.Problems() {
				got += "problem: " + problem + "\n"
			}
			w.check(t)
			expect(t, got, tt.want)
		})
	}
}

// Two ports are swapped, as a damaged map may have them: neither can be first.
func TestDiffOfASwap(t *testing.T) {
	worlds := [2]*world{newWorld(), newWorld()}
	for i, w := range worlds {
		for _, line := range []string{"network blue 1001 192.168.0.0/24", "pod a blue=192.168.0.2", "pod b blue=192.168.0.3",
			[]string{"port 7 u-a blue", "port 8 u-a blue"}[i], []string{"port 8 u-b blue", "port 7 u-b blue"}[i]} {
			w.apply(t, w.event(t, line))
		}
	}
	changes := Diff(worlds[0].maps, worlds[1].maps)
	for _, c := range changes {
		worlds[0].maps.Apply(c)
		for _, problem := range astray(worlds[0].maps) {
			t.Errorf("after %s: %s", c, problem)
		}
	}
	expect(t, render(changes), `
			places delete 1001 0a:58:c0:a8:00:02
			places delete 1001 0a:58:c0:a8:00:03
			ports set 7 -> 1001 0a:58:c0:a8:00:03 192.168.0.3
			ports set 8 -> 1001 0a:58:c0:a8:00:02 192.168.0.2
			places set 1001 0a:58:c0:a8:00:02 -> port 8 192.168.0.2
			places set 1001 0a:58:c0:a8:00:03 -> port 7 192.168.0.3`)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.ReplaceAll(want, "\t", ""); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The programs compare mapped addresses, so a prefix of IPv4 has 96 bits more. A Network without a gateway needs no prefix.
func TestNetworkOf(t *testing.T) {
	for _, tt := range []struct {
		cidr, gateway string
		egress        bool
		want          Network
		text          string
	}{
		{"192.168.0.0/24", "192.168.0.1", true, Network{MTU: 1450, Bits: 120, Gateway: Address{10: 255, 255, 192, 168, 0, 1}, Egress: 1}, "mtu 1450 gateway 192.168.0.1/24 egress"},
		{"fd12::/64", "fd12::1", false, Network{MTU: 1450, Bits: 64, Gateway: Address{0: 0xfd, 1: 0x12, 15: 1}}, "mtu 1450 gateway fd12::1/64"},
		{"192.168.0.7/32", "", false, Network{MTU: 1450, Bits: 32}, "mtu 1450"},
	} {
		of := dataplane.Network{VNI: 0x010203, MTU: 1450, CIDR: netip.MustParsePrefix(tt.cidr), Egress: tt.egress}
		if tt.gateway != "" {
			of.Gateway = netip.MustParseAddr(tt.gateway)
		}
		tt.want.MAC = dataplane.MAC{2, 0, 0x5e, 1, 2, 3}
		if got := NetworkOf(&of); got != tt.want || got.String() != tt.text || got.Gateway.Addr() != of.Gateway {
			t.Errorf("%s with gateway %q is %+v, want %+v", tt.cidr, tt.gateway, got, tt.want)
		}
	}
}
