//go:build linux && kernel

package kernel

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/network/multus"
)

// nodePort translates packets to that UDP port, as kube-proxy does for a NodePort.
func nodePort(port int, to netip.AddrPort) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "kube-proxy"})
	chain := conn.AddChain(&nftables.Chain{Name: "prerouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest})
	exprs, err := compile(nftables.TableFamilyIPv4, fmt.Sprint("meta l4proto udp th dport ", port))
	if err != nil {
		return err
	}
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(exprs,
		&expr.Immediate{Register: unix.NFT_REG_1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: unix.NFT_REG_2, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(nftables.TableFamilyIPv4), RegAddrMin: unix.NFT_REG_1, RegProtoMin: unix.NFT_REG_2})})
	return conn.Flush()
}

// A Service may lead to a node's own VXLAN port. A pod of the cluster's own network that
// uses it is not taken for a node, although its packets arrive with its node's address.
func TestNoVXLANByService(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	there := c.nodes[1]
	c.nodes[0].plain("plain")
	c.in(there.name, func() {
		if err := nodePort(30999, netip.AddrPortFrom(there.address, 4789)); err != nil {
			t.Error(err)
		}
	})
	var inbox net.PacketConn
	var err error
	c.in(blue[1].name, func() { inbox, err = net.ListenPacket("udp4", ":9") })
	must(t, err)
	defer inbox.Close()
	conn, err := c.dial("plain", "udp", netip.AddrPortFrom(there.address, 30999).String(), nil)
	must(t, err)
	_, err = conn.Write(inVXLAN(blue[0], blue[1], udp4(blue[0].ip, blue[1].ip, 9, "injected")))
	must(t, err)
	if got := there.dropsMore("vxlan", 0); got != 1 {
		t.Errorf("%d packets were dropped", got)
	}
	_ = inbox.SetReadDeadline(time.Now().Add(silence))
	b := make([]byte, 100)
	if size, _, err := inbox.ReadFrom(b); err == nil {
		t.Errorf("the pod got %q", b[:size])
	}
}

// Another program that speaks VXLAN on this port, such as a CNI plugin, still works, from
// any address.
func TestVXLANOfOthers(t *testing.T) {
	t.Run("between addresses of Nodes", func(t *testing.T) { vxlanOfOthers(t, "10.9.0.1", "10.9.0.2") })
	t.Run("between other addresses of the nodes", func(t *testing.T) { vxlanOfOthers(t, "10.8.0.1", "10.8.0.2") })
}

func vxlanOfOthers(t *testing.T, addresses ...string) {
	c := newCluster(t, 2)
	blue := c.network("blue", multus.FirstVNI+1, "192.168.0.0/16")
	for i, n := range c.nodes {
		own, peer := netip.MustParseAddr(addresses[i]), netip.MustParseAddr(addresses[1-i])
		c.in(n.name, func() {
			if own != n.address {
				c.addressOn("eth0", netip.PrefixFrom(own, 24))
			}
			if err := netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vxlan.calico"}, VxlanId: 4096, SrcAddr: own.AsSlice(), Port: 4789}); err != nil {
				t.Error(err)
				return
			}
			c.addressOn("vxlan.calico", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, 9, byte(i + 1)}), 24))
			c.up("vxlan.calico")
			index, err := indexOf("vxlan.calico")
			if err == nil {
				err = netlink.NeighAppend(&netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: peer.AsSlice(), HardwareAddr: make(net.HardwareAddr, 6)})
			}
			if err != nil {
				t.Error(err)
			}
		})
		c.echo(n.name, n.name)
		n.attach(n.pod(fmt.Sprint("blue", i+1), blue, fmt.Sprint("192.168.0.", i+2)))
	}
	c.sync()
	if got := c.answer("node1", netip.MustParseAddr("10.244.9.2"), patience); got != "node2 10.244.9.1" {
		t.Errorf("got %q", got)
	}
	for _, n := range c.nodes {
		if !strings.Contains(n.tracked(), "dst="+addresses[1]+" sport=") || !strings.Contains(n.tracked(), "dport=4789") {
			t.Errorf("%s does not track it:\n%s", n.name, n.tracked())
		}
	}
}

// tracked is the conntrack table of the node.
func (n *node) tracked() string {
	n.Helper()
	var content []byte
	var err error
	n.in(n.name, func() { content, err = os.ReadFile("/proc/thread-self/net/nf_conntrack") })
	must(n, err)
	return string(content)
}

// Packets of nodes arrive by the interface that leads back to their sender, unless the
// option allows others. Here node2 sends to node1 by a second wire, and node1 by the first.
func TestAsymmetricRoutes(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	c.in("wire", func() {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}); err != nil {
			t.Error(err)
		}
		c.up("br1")
	})
	for i, n := range c.nodes {
		ns, err := keeper(c.dir).open(n.name)
		must(t, err)
		defer ns.Close()
		c.in("wire", func() {
			br, err := indexOf("br1")
			if err == nil {
				err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "x-" + n.name, MasterIndex: br}, PeerName: "eth1", PeerNamespace: netlink.NsFd(ns)})
			}
			if err != nil {
				t.Error(err)
			}
			c.up("x-" + n.name)
		})
		c.in(n.name, func() {
			c.addressOn("eth1", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 7, 0, byte(i + 1)}), 24))
			c.up("eth1")
			for _, of := range []string{"all", "eth0", "eth1"} {
				if err := setSysctl(dataplane.Sysctl{Name: "net.ipv4.conf." + of + ".rp_filter", Value: "0"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	c.in("node2", func() {
		index, err := indexOf("eth1")
		if err == nil {
			err = netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: ipNet(netip.MustParsePrefix("10.9.0.1/32")), Gw: net.IP{10, 7, 0, 1}})
		}
		if err != nil {
			t.Error(err)
		}
	})
	blue[0].reaches(blue[1].ip, "")
	if c.nodes[1].drops("vxlan") == 0 {
		t.Error("node2 counted nothing")
	}
	c.state.VXLANReversePathFilter = false
	c.sync()
	blue[0].reaches(blue[1].ip, "blue2")
}

// All nodes must choose the same port: nodes with the new port reach each other, and do not
// reach the others.
func TestAnotherPort(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	c.state.UDPPort = 8473
	c.nodes[0].sync()
	blue[0].reaches(blue[1].ip, "")
	c.nodes[1].sync()
	blue[0].reaches(blue[1].ip, "blue2")
}
