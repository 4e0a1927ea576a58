//go:build linux && kernel

package node

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/bpf"
)

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func setSysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0o644)
}

// removePrograms as `tc filter del` and `bpftool net detach` do.
func removePrograms(link netlink.Link) error {
	if _, err := bpf.Detach(link.Attrs().Index); err != nil {
		return err
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		filters, err := netlink.FilterList(link, parent)
		if err != nil {
			return err
		}
		for _, f := range filters {
			if err := netlink.FilterDel(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// chain of a table "others" in the thread's namespace.
func chain(kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority, family nftables.TableFamily, rule ...expr.Any) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Family: family, Name: "others"})
	c := conn.AddChain(&nftables.Chain{Name: fmt.Sprint(kind, *hook), Table: table, Type: kind, Hooknum: hook, Priority: priority})
	conn.AddRule(&nftables.Rule{Table: table, Chain: c, Exprs: rule})
	return conn.Flush()
}

// dropInvalid drops packets that conntrack cannot understand, as kube-proxy does.
func dropInvalid() error {
	invalid := binary.NativeEndian.AppendUint32(nil, expr.CtStateBitINVALID)
	return chain(nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.TableFamilyINet,
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: invalid, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, &expr.Verdict{Kind: expr.VerdictDrop})
}

// masquerade the packets that a node forwards, as the cluster's own network does.
func masquerade() error {
	return chain(nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, nftables.TableFamilyINet, &expr.Masq{})
}

// translate the address of a Service to that of its endpoint, as kube-proxy does.
func translate(service, endpoint netip.Addr) error {
	family, offset := nftables.TableFamilyIPv4, uint32(16)
	if service.Is6() {
		family, offset = nftables.TableFamilyIPv6, 24
	}
	return chain(nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, family,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(service.BitLen() / 8)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: service.AsSlice()},
		&expr.Immediate{Register: 1, Data: endpoint.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1})
}

// nodePort translates packets to that UDP port, as kube-proxy does for a NodePort.
func nodePort(port uint16, to netip.AddrPort) error {
	return chain(nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, nftables.TableFamilyIPv4,
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.Immediate{Register: unix.NFT_REG_1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: unix.NFT_REG_2, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(nftables.TableFamilyIPv4), RegAddrMin: unix.NFT_REG_1, RegProtoMin: unix.NFT_REG_2})
}

// plain is a pod of the cluster's own network, on the node's bridge docker0 and behind the node's address, with
// routes to all addresses.
func (n *labNode) plain(name string) {
	n.Helper()
	n.namespace(name)
	gateways := []netip.Prefix{netip.MustParsePrefix("172.16.0.254/24"), netip.MustParsePrefix("fd0b::fe/64")}
	n.in(n.name, func() error {
		if err := addUp(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "docker0"}}); err != nil {
			return err
		}
		br, err := netlink.LinkByName("docker0")
		if err != nil {
			return err
		}
		for _, g := range gateways {
			if err := addressOn("docker0", g); err != nil {
				return err
			}
		}
		if err := setSysctl("net.ipv6.conf.all.forwarding", "1"); err != nil {
			return err
		}
		if err := masquerade(); err != nil {
			return err
		}
		return addUp(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v" + name, MasterIndex: br.Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(n.namespaces[name])})
	})
	n.in(name, func() error {
		for _, a := range []string{"172.16.0.1/24", "fd0b::1/64"} {
			if err := addressOn("eth0", netip.MustParsePrefix(a)); err != nil {
				return err
			}
		}
		if err := up("eth0"); err != nil {
			return err
		}
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, g := range gateways {
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: g.Addr().AsSlice()}); err != nil {
				return fmt.Errorf("route by %s: %w", g, err)
			}
		}
		return nil
	})
}
