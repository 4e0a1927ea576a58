package reconcile

import (
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/pod2/pod2/pkg/network"
)

// cluster holds the ranges that the cluster itself uses, read from caches: the ranges of
// Services, the podCIDRs and addresses of Nodes, and the CIDRs in Settings.
type cluster struct {
	stores []cache.Store
	named  []network.ClusterRange

	mu sync.Mutex
	// ranges were read from the caches at these versions.
	versions []string
	ranges   []network.ClusterRange
	// of has the ranges of each object in the caches, each read once.
	of map[any][]network.ClusterRange
}

func newCluster(informers Informers, named []netip.Prefix) *cluster {
	c := &cluster{}
	if informers.Nodes != nil {
		c.stores = append(c.stores, informers.Nodes.Informer().GetStore())
	}
	if informers.ServiceCIDRs != nil {
		c.stores = append(c.stores, informers.ServiceCIDRs.Informer().GetStore())
	}
	for _, prefix := range named {
		c.named = append(c.named, network.ClusterRange{Prefix: prefix.Masked(), Of: "--cluster-cidrs"})
	}
	return c
}

// currentRanges returns all ranges, in no order. The caller must not change them. It rebuilds the
// list when a cache has changed, and reads only new objects. Every report of a kubelet
// changes the cache of Nodes: 5,000 Nodes report 17 times a second.
func (c *cluster) currentRanges() []network.ClusterRange {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Before the lists: the next call then reads changes made in between.
	versions := make([]string, 0, len(c.stores))
	for _, store := range c.stores {
		versions = append(versions, store.LastStoreSyncResourceVersion())
	}
	if c.versions != nil && !slices.Contains(versions, "") && slices.Equal(versions, c.versions) {
		return c.ranges
	}
	of, all := make(map[any][]network.ClusterRange, len(c.of)), make([]network.ClusterRange, 0, len(c.ranges))
	for _, store := range c.stores {
		for _, obj := range store.List() {
			ranges, known := c.of[obj]
			if !known {
				ranges = clusterRanges(obj)
			}
			of[obj] = ranges
			all = append(all, ranges...)
		}
	}
	c.versions, c.of, c.ranges = versions, of, append(all, c.named...)
	return c.ranges
}

// clusterRanges returns the ranges of one object. It ignores invalid addresses and CIDRs.
func clusterRanges(obj any) (ranges []network.ClusterRange) {
	add := func(prefix netip.Prefix, err error, of string) {
		if err == nil {
			ranges = append(ranges, network.ClusterRange{Prefix: prefix.Masked(), Of: of})
		}
	}
	switch obj := obj.(type) {
	case *corev1.Node:
		for _, cidr := range obj.Spec.PodCIDRs {
			prefix, err := netip.ParsePrefix(cidr)
			add(prefix, err, "podCIDR of Node "+obj.Name)
		}
		for _, a := range obj.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			add(netip.PrefixFrom(addr.WithZone(""), addr.BitLen()), err, "address of Node "+obj.Name)
		}
	case *networkingv1.ServiceCIDR:
		for _, cidr := range obj.Spec.CIDRs {
			prefix, err := netip.ParsePrefix(cidr)
			add(prefix, err, "ServiceCIDR "+obj.Name)
		}
	}
	return ranges
}

// sameRanges recognizes updates that no Network needs to know.
func sameRanges(old, new any) bool { return slices.Equal(clusterRanges(old), clusterRanges(new)) }

// onRangesOf returns the Networks that overlap the ranges of an object.
func (s *caches) onRangesOf(obj any) []Key {
	ranges := clusterRanges(obj)
	var keys []Key
	for _, n := range s.networks.all() {
		if slices.ContainsFunc(ranges, func(c network.ClusterRange) bool { return c.Overlaps(n) }) {
			keys = append(keys, keyOf(KindNetwork, n))
		}
	}
	return keys
}
