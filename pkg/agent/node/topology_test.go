//go:build linux && kernel

package node

import (
	"net/netip"
	"testing"
	"time"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Pods of a Network reach each other on one node and on two. Those of a Network with the same
// CIDR do not hear them. No packet of an honest pod counts as forged.
func TestTwoNetworksOfOneCIDR(t *testing.T) { eachFamily(t, twoNetworksOfOneCIDR) }

func twoNetworksOfOneCIDR(t *testing.T, f family) {
	l, blue, green := f.twoByTwo(t)
	lonely := l.nodes[1].pod("lonely", blue[0].network, f.pod(9).String())
	l.attach(lonely)
	for i := range 2 {
		blue[i].reaches(blue[1-i].ip, blue[1-i].name)
		green[i].reaches(green[1-i].ip, green[1-i].name)
		blue[i].reaches(lonely.ip, "lonely")
		green[i].reaches(lonely.ip, "")
	}
	for _, n := range l.nodes {
		for _, reason := range []string{"mac", "ip", "arp", "nd", "protocol", "vxlan", "failed"} {
			if got := n.drops(reason); got != 0 {
				t.Errorf("%s dropped %d packets as %s", n.name, got, reason)
			}
		}
	}
}

// Nodes may have addresses of IPv6 only: then packets go through the VXLAN device.
func TestNodesWithIPv6Only(t *testing.T) { eachFamily(t, nodesWithIPv6Only) }

func nodesWithIPv6Only(t *testing.T, f family) {
	l, blue, green := f.twoByTwoOn(newLabOn(t, 2, ipv6.wire))
	blue[0].reaches(blue[1].ip, "blue2")
	green[1].reaches(green[0].ip, "green1")
	if conn, err := l.dial("blue1", "tcp", netip.AddrPortFrom(blue[1].ip, 7).String(), nil); err != nil {
		t.Error(err)
	} else {
		expectEcho(t, conn, "blue2 "+blue[0].ip.String())
	}
	for _, n := range l.nodes {
		if tracked := n.tracked(); tracked != "" {
			t.Errorf("%s tracks\n%s", n.name, tracked)
		}
	}
}

// A node has another address than the one in its Node, and the kernel would prefer it: it is closer to the other
// node's. VXLAN has the address of the Node, because nodes take it from no other.
func TestNodeWithAnotherAddress(t *testing.T) {
	t.Parallel()
	l, blue, _ := ipv4.twoByTwoOn(newLabOn(t, 2, ipv6.wire))
	l.give("node1", "eth0", netip.PrefixFrom(ending(ipv6.wire, 3), ipv6.wire.Bits()))
	blue[0].reaches(blue[1].ip, "blue2")
}

// A pod has an interface on an IPv4 Network and one on an IPv6 Network. Each reaches its own.
func TestPodOnTwoNetworks(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	four, six := l.network("four", blueVNI, ipv4.cidr.String()), l.network("six", greenVNI, ipv6.cidr.String())
	both, a, b := l.nodes[0].pod("both", four, "192.168.0.2"), l.nodes[1].pod("a", four, "192.168.0.3"), l.nodes[1].pod("b", six, "fd00:10::3")
	mac, err := dataplane.ParseMAC("0a:58:00:00:00:02")
	must(t, err)
	l.pods[0].Attachments = append(l.pods[0].Attachments, dataplane.Attachment{Network: "six", IP: addr("fd00:10::2"), MAC: mac, Bits: 64})
	l.attach(both, a, b)
	request := both.attachment()
	request.Interface, request.Network = "net2", "default.six"
	_, err = l.nodes[0].addAs(both, request)
	must(t, err)
	both.reaches(a.ip, "a")
	both.reaches(b.ip, "b")
	a.reaches(both.ip, "both")
	b.reaches(addr("fd00:10::2"), "both")
}

// A pod on a node that is cut off has lost its identity to another pod. It gets no packets
// that are sent to that address, and no answers.
func TestStrayPodGetsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	blue := l.network("blue", blueVNI, "192.168.0.0/16")
	stray, peer := l.nodes[0].pod("stray", blue, "192.168.0.2"), l.nodes[1].pod("peer", blue, "192.168.0.3")
	l.attach(stray, peer)
	peer.reaches(stray.ip, "stray")
	heir := l.nodes[2].pod("heir", blue, "192.168.0.2")
	for _, n := range l.nodes[1:] { // node1 does not hear of it
		n.lose(stray)
	}
	l.pods = l.pods[1:]
	for _, n := range l.nodes[1:] {
		n.sync()
	}
	heir.attach()
	peer.reaches(stray.ip, "heir")
	stray.reaches(peer.ip, "")
}

// An address moves to a pod on another node. Packets follow with the events, without a sync.
// It does not matter which of the two events comes first.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		addedFirst bool
	}{{"after the old pod is gone", false}, {"before the old pod is gone", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 3)
			blue := l.network("blue", blueVNI, "192.168.0.0/16")
			old, peer, other := l.nodes[0].pod("old", blue, "192.168.0.2"), l.nodes[1].pod("peer", blue, "192.168.0.3"), l.nodes[2].pod("other", blue, "192.168.0.4")
			l.attach(old, peer, other)
			peer.reaches(old.ip, "old")
			young := l.nodes[2].pod("young", blue, "192.168.0.2")
			l.pods[len(l.pods)-1].Created = time.Now()
			for _, n := range l.nodes {
				if tt.addedFirst {
					n.tellPod(young)
				}
				n.lose(old)
				if !tt.addedFirst {
					n.tellPod(young)
				}
			}
			young.attach()
			peer.reaches(young.ip, "young")
			other.reaches(young.ip, "young") // on its own node
			old.reaches(peer.ip, "")
		})
	}
}

// A Network that is deleted, and one that is made again with its pods still there.
func TestNetworkComesBack(t *testing.T) {
	t.Parallel()
	l, blue, green := twoByTwo(t)
	n := l.nodes[0]
	n.wokenBefore()
	spec := l.state.Networks[0]
	l.state.Networks = l.state.Networks[1:]
	n.event(func() { n.node.DeleteNetwork("default", "blue") })
	if !n.wasWoken() {
		t.Error("the agent was not told that a sync is due, after the Network left")
	}
	blue[0].reaches(blue[1].ip, "")
	n.sync()
	green[0].reaches(green[1].ip, "green2")
	l.state.Networks = append(l.state.Networks, spec)
	n.tell()
	if !n.wasWoken() {
		t.Error("the agent was not told that a sync is due, after the Network came")
	}
	n.sync()
	blue[0].reaches(blue[1].ip, "blue2")
	blue[0].reaches(blue[0].network.Gateway, "")
	if !blue[0].pings(blue[0].network.Gateway, patience) {
		t.Error("the gateway does not answer")
	}
}

// A Network comes to a node with its first pod, and leaves with its last one. Then a sync is
// due: the node may have to forward packets of another family.
func TestNetworkComesWithItsFirstPod(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	blue := l.network("blue", blueVNI, "192.168.0.0/16")
	n := l.nodes[0]
	there := l.nodes[1].pod("there", blue, "192.168.0.2")
	l.attach(there)
	n.expect("")
	n.wokenBefore()
	here := n.pod("here", blue, "192.168.0.3")
	n.tellPod(here)
	l.nodes[1].tellPod(here)
	if !n.wasWoken() {
		t.Error("the agent was not told that a sync is due, after the first pod came")
	}
	n.sync()
	here.attach()
	here.reaches(there.ip, "there")
	n.del(here.attachment())
	n.wokenBefore()
	n.lose(here)
	if !n.wasWoken() {
		t.Error("the agent was not told that a sync is due, after the last pod left")
	}
	n.expect("")
	n.step(false)
}

// A sync is due after each change of a Network's properties, also of egress, which no table has.
func TestEgressNeedsASync(t *testing.T) {
	t.Parallel()
	l, _, _ := twoByTwo(t)
	n := l.nodes[0]
	n.wokenBefore()
	n.tell()
	if n.wasWoken() {
		t.Error("a sync was asked for, and nothing has changed")
	}
	l.state.Networks[0].Egress = false
	n.tell()
	if !n.wasWoken() {
		t.Error("the agent was not told that a sync is due")
	}
}

// An event that concerns pods of the Networks of this node needs no sync.
func TestPodsNeedNoSync(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	n.wokenBefore()
	young := l.nodes[1].pod("young", blue[0].network, "192.168.0.9")
	for _, x := range l.nodes {
		x.tellPod(young)
	}
	young.attach()
	blue[0].reaches(young.ip, "young")
	for _, x := range l.nodes {
		x.lose(young)
	}
	blue[0].reaches(young.ip, "")
	if n.wasWoken() {
		t.Error("a sync was asked for")
	}
}
