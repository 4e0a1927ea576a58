//go:build linux && kernel

package node

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/cni"
)

// Del removes the entries before the interface: no entry leads to an index that another
// interface may have by then. Here the kernel refuses to remove the interface.
func TestDelRemovesEntriesFirst(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	pods[0].attach()
	n.expect("place 192.168.0.2: a\nport a: 192.168.0.2\n")
	name := pods[0].attachment().HostInterface()
	n.in(n.name, func() error { // an interface of another program has the name
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		// Before Linux 6.2, an interface that is up keeps its name.
		if err := errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, "away")); err != nil {
			return err
		}
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}})
	})
	if err := in(n.namespaces[n.name], func() error { return n.node.Del(t.Context(), pods[0].attachment()) }); err == nil {
		t.Error("the interface of another program was removed")
	}
	n.expect("")
}

func TestDel(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	pods[0].attach()
	pods[1].attach()
	n.del(pods[0].attachment())
	if link := pods[0].link(); link != nil {
		t.Errorf("left: %v", link.Attrs().Name)
	}
	n.expect("place 192.168.0.3: b\nport b: 192.168.0.3\n")
	n.del(pods[0].attachment()) // again
	n.del(cni.Attachment{ID: cni.ID{ContainerID: "c-unknown", Interface: "net1"}})
	pods[0].attachAgain()
	pods[1].reaches(pods[0].ip, "a")
}

// attachAgain in the same namespace, where the pod answers already.
func (p *labPod) attachAgain() {
	p.Helper()
	_, err := p.on.add(p)
	must(p, err)
}

// The kernel removes an interface with the pod's namespace. The next sync removes its entries, or Del does.
func TestNamespaceIsDestroyed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then func(*labNode, *labPod)
	}{
		{"Sync", func(n *labNode, _ *labPod) { n.step(false) }},
		{"Del", func(n *labNode, p *labPod) { n.del(p.attachment()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n, pods := onBlue(t, "a", "b")
			for _, p := range pods {
				p.attachAgain()
			}
			pods[0].vanish()
			tt.then(n, pods[0])
			n.expect("place 192.168.0.3: b\nport b: 192.168.0.3\n")
		})
	}
}

// vanish removes the pair from the pod's side, as the end of its namespace does.
func (p *labPod) vanish() {
	p.Helper()
	p.in(p.name, func() error {
		link, err := netlink.LinkByName("net1")
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	})
}

// A pod's interface vanished, and a pod of another Network has its index before the agent
// knows. It gets no packet for the first one, and sends none as it.
func TestIndexIsUsedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	n := l.nodes[0]
	blue, green := l.network("blue", blueVNI, "192.168.0.0/16"), l.network("green", greenVNI, "192.168.0.0/16")
	old, peer, heir := n.pod("old", blue, "192.168.0.2"), n.pod("peer", blue, "192.168.0.3"), n.pod("heir", green, "192.168.0.2")
	l.attach(old, peer)
	index := old.link().Attrs().Index
	old.vanish()
	heir.attachAs(index)
	l.echo("heir", "heir")
	peer.reaches(heir.ip, "")
	heir.reaches(peer.ip, "")
	n.step(false)
	n.expect("place 192.168.0.2: heir\nplace 192.168.0.3: peer\nport heir: 192.168.0.2\nport peer: 192.168.0.3\n")
}

// attachAs attaches the pod with that index for the node's end, as the kernel may choose it. All
// other indexes up to it are in use.
func (p *labPod) attachAs(index int) {
	p.Helper()
	n := p.on
	n.in(n.name, func() error {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: p.attachment().HostInterface(), Index: index, MTU: p.network.MTU}, PeerName: "net1", PeerMTU: uint32(p.network.MTU),
			PeerHardwareAddr: p.mac[:], PeerNamespace: netlink.NsFd(n.namespaces[p.name])}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		if err := netlink.LinkSetIP6AddrGenMode(pair, 1 /* none */); err != nil {
			return err
		}
		return netlink.LinkSetAlias(pair, fmt.Sprintf("default.%s u-%s net1 c-%s %s", p.network.Name, p.name, p.name, p.name))
	})
	p.in(p.name, func() error {
		if err := addressOn("net1", p.prefix()); err != nil {
			return err
		}
		return up("net1")
	})
	if _, err := n.add(p); err != nil { // completes it
		n.Fatal(err)
	}
	if got := p.link().Attrs().Index; got != index {
		n.Fatalf("it has the index %d", got)
	}
}

// GC removes the attachments to a Network that the runtime does not list.
func TestGC(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b", "c")
	for _, p := range pods {
		p.attach()
	}
	n.in(n.name, func() error { return n.node.GC(t.Context(), "default.green", nil) })
	n.in(n.name, func() error { return n.node.GC(t.Context(), "default.blue", []cni.ID{pods[1].attachment().ID}) })
	n.expect("place 192.168.0.3: b\nport b: 192.168.0.3\n")
	if pods[0].link() != nil || pods[1].link() == nil || pods[2].link() != nil {
		t.Errorf("interfaces: %v %v %v", pods[0].link(), pods[1].link(), pods[2].link())
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	check := func() (err error) {
		ns := pods[0].file()
		defer ns.Close()
		return in(n.namespaces[n.name], func() error { _, err := n.node.Check(t.Context(), pods[0].attachment(), ns); return err })
	}
	if check() == nil {
		t.Error("before it is attached: no error")
	}
	pods[0].attach()
	must(t, check())
	n.event(func() { n.node.DeletePod("default", "a", "u-a") })
	if check() == nil {
		t.Error("of a deleted pod: no error")
	}
}
