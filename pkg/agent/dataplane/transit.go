package dataplane

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// Transit6 holds the /127s between the node and the routers of IPv6 Networks. VNI v has the
// addresses 2v and 2v+1. They have no meaning outside the node.
var Transit6 = netip.MustParsePrefix("fd64:706f:6432::/96")

// link is the pair of addresses between the node and a router.
type link struct{ host, router netip.Prefix }

func (w *wanted) transitOf(n Network) (link, bool) {
	if n.CIDR.Addr().Is6() {
		return pair(Transit6, uint32(n.VNI), 127), true
	}
	index, ok := w.transits[n.VNI]
	return pair(w.Transit, index, 31), ok
}

// pair returns the pair of addresses with this index in prefix.
func pair(prefix netip.Prefix, index uint32, bits int) link {
	even := prefix.Masked().Addr().AsSlice()
	tail := even[len(even)-4:]
	binary.BigEndian.PutUint32(tail, binary.BigEndian.Uint32(tail)|index<<1)
	host, _ := netip.AddrFromSlice(even)
	return link{netip.PrefixFrom(host, bits), netip.PrefixFrom(host.Next(), bits)}
}

// assignTransits gives each IPv4 Network on this node an index into Transit. It keeps an
// index that the kernel already has, because a new one would break connections. Otherwise
// it takes the lowest free index.
func (w *wanted) assignTransits(here []Network) {
	w.transits = map[int32]uint32{}
	taken := map[uint32]bool{}
	has := map[int32]uint32{}
	for _, a := range or(w.Host.Namespace("")).Addresses {
		vni := OwnLink(a.Dev)
		if index, ok := w.transitIndex(a.Prefix); ok && vni != 0 && a.Dev == wanName(vni) {
			if old, several := has[vni]; !several || index < old {
				has[vni] = index
			}
		}
	}
	v4 := slices.DeleteFunc(slices.Clone(here), func(n Network) bool { return n.CIDR.Addr().Is6() || !n.Gateway.IsValid() })
	for _, n := range v4 {
		if index, ok := has[n.VNI]; ok && !taken[index] {
			w.transits[n.VNI], taken[index] = index, true
		}
	}
	many, next := uint32(1)<<max(31-w.Transit.Bits(), 0), uint32(0)
	for _, n := range v4 {
		if _, ok := w.transits[n.VNI]; ok {
			continue
		}
		for taken[next] {
			next++
		}
		if next >= many {
			w.problems = append(w.problems, fmt.Sprintf("Network %s/%s: the range %s has no free /31 for its gateway; its packets cannot leave the Network", n.Namespace, n.Name, w.Transit))
			continue
		}
		w.transits[n.VNI], taken[next] = next, true
	}
}

// transitIndex returns the index of the node's address of a pair; false if p is none.
func (w *wanted) transitIndex(p netip.Prefix) (uint32, bool) {
	if !p.Addr().Is4() || p.Bits() != 31 || !w.Transit.Contains(p.Addr()) {
		return 0, false
	}
	base, is := w.Transit.Masked().Addr().As4(), p.Addr().As4()
	offset := binary.BigEndian.Uint32(is[:]) - binary.BigEndian.Uint32(base[:])
	return offset >> 1, offset&1 == 0
}
