package network

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/chance"
)

func (w *world) grow(name string) {
	n := w.networks[name]
	if n == nil {
		return
	}
	n = n.DeepCopy()
	cidr := netip.MustParsePrefix(n.Spec.CIDR)
	n.Spec.CIDR = netip.PrefixFrom(cidr.Addr(), max(cidr.Bits()-chance.Pick(w.dice, 1, 1, 2), 22)).Masked().String()
	n.Generation++
	w.putNetwork(n)
	w.did("user grows Network %s to %s", name, n.Spec.CIDR)
}

func setAside(s State, addr netip.Addr) bool {
	return slices.ContainsFunc(s.Network.Spec.OnRequest, func(r v1.AddressRange) bool {
		first, last, two := strings.Cut(string(r), "-")
		return addr == netip.MustParseAddr(first) || two && !addr.Less(netip.MustParseAddr(first)) && !netip.MustParseAddr(last).Less(addr)
	})
}

// asksFor: a gated pod asks for an address in its request, or in the annotation of a backup.
func asksFor(s State, pod string, addr netip.Addr) bool {
	return slices.ContainsFunc(s.Pods, func(p *corev1.Pod) bool {
		requests, _ := attachment.Requests(p)
		brings := attachment.Gated(p) && attachment.Published(p)[s.Name].Address.Addr() == addr
		return p.Name == pod && (brings || slices.Contains(requests, attachment.Request{Network: s.Name, Address: addr}))
	})
}
