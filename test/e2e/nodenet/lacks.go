//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// lacks tries the operations of pod2-agent in a network namespace that ends with this
// process. It returns the first that fails; "" if none does.
func lacks() string {
	runtime.LockOSThread() // a namespace belongs to a thread
	for _, attempt := range []struct {
		what string
		do   func() error
	}{
		{"network namespaces", func() error { return unix.Unshare(unix.CLONE_NEWNET) }},
		{"IPv6", func() error { _, err := os.Stat("/proc/net/if_inet6"); return err }},
		{"writable sysctls", func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }},
		{"bridges", func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}) }},
		{"veth devices", func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v1"}, PeerName: "v2"})
		}},
		{"VXLAN devices", func() error {
			return netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx"}, VxlanId: 7, Port: 4789})
		}},
		{"nftables with NAT", func() error {
			return nft(nftables.TableFamilyINet, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, &expr.Masq{})
		}},
		{"nftables with connection tracking", func() error {
			return nft(nftables.TableFamilyINet, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, &expr.Ct{Key: expr.CtKeySTATE, Register: 1})
		}},
		{"nftables with reverse paths", func() error {
			return nft(nftables.TableFamilyINet, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, &expr.Fib{Register: 1, FlagSADDR: true, FlagIIF: true, ResultOIF: true, FlagPRESENT: true})
		}},
		{"nftables for bridges", func() error {
			return nft(nftables.TableFamilyBridge, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw, &expr.Counter{})
		}},
		{"BPF programs", func() error { return features.HaveProgramType(ebpf.SchedCLS) }},
		{"the BPF file system", func() error {
			fd, err := unix.Fsopen("bpf", 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}},
		{"clsact", func() error {
			v1, err := netlink.LinkByName("v1")
			if err != nil {
				return err
			}
			return netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: v1.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
		}},
	} {
		if err := attempt.do(); err != nil {
			return fmt.Sprintf("they need %s, which fails here: %v\n", attempt.what, err)
		}
	}
	return ""
}

// nft makes a chain with a rule of this expression.
func nft(family nftables.TableFamily, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority, e expr.Any) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(&nftables.Table{Family: family, Name: fmt.Sprint(kind, *hook)})
	chain := conn.AddChain(&nftables.Chain{Name: "c", Table: table, Type: kind, Hooknum: hook, Priority: priority})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{e}})
	return conn.Flush()
}
