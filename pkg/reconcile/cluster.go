package reconcile

import (
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/network"
)

// cluster is what the cluster uses itself, as caches have it: the ranges of Services,
// the podCIDRs and addresses of Nodes, and what Settings name.
type cluster struct {
	informers []cache.SharedIndexInformer
	named     []network.ClusterRange

	mu sync.Mutex
	// ranges are those of the caches at these versions.
	versions []string
	ranges   []network.ClusterRange
	// of the objects of the caches, each as it was read once.
	of map[any][]network.ClusterRange
}

func newCluster(informers Informers, named []netip.Prefix) *cluster {
	c := &cluster{}
	if informers.Nodes != nil {
		c.informers = append(c.informers, informers.Nodes.Informer())
	}
	if informers.ServiceCIDRs != nil {
		c.informers = append(c.informers, informers.ServiceCIDRs.Informer())
	}
	for _, prefix := range named {
		c.named = append(c.named, network.ClusterRange{Prefix: prefix.Masked(), Of: "--cluster-cidrs"})
	}
	return c
}

// now returns all ranges, in no order; the caller does not change them. They are put
// together when a cache has changed, which that of Nodes does with every report of a
// kubelet, and only what changed is read: 5,000 Nodes report 17 times a second.
func (c *cluster) now() []network.ClusterRange {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Before the lists: what changes in between is read at the next call.
	versions := make([]string, 0, len(c.informers))
	for _, informer := range c.informers {
		versions = append(versions, informer.GetStore().LastStoreSyncResourceVersion())
	}
	if c.versions != nil && !slices.Contains(versions, "") && slices.Equal(versions, c.versions) {
		return c.ranges
	}
	of, all := make(map[any][]network.ClusterRange, len(c.of)), make([]network.ClusterRange, 0, len(c.ranges))
	for _, informer := range c.informers {
		for _, obj := range informer.GetStore().List() {
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

// clusterRanges are those of one object. What is no address or CIDR says nothing.
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

// clusterWatches says which Networks an event concerns of what the cluster uses: those
// that overlap it, and only if that is what has changed.
func (r *Reconciler) clusterWatches() []Watch {
	var watches []Watch
	for _, informer := range r.cluster.informers {
		watches = append(watches, Watch{Informer: informer, Keys: r.clusterKeys, Same: func(old, new any) bool {
			return slices.Equal(clusterRanges(old), clusterRanges(new))
		}})
	}
	return watches
}

func (r *Reconciler) clusterKeys(obj any) []Key {
	ranges := clusterRanges(obj)
	networks, err := r.networks.List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "List the cache of Networks") // which never fails
		return nil
	}
	var keys []Key
	for _, n := range networks {
		if slices.ContainsFunc(ranges, func(c network.ClusterRange) bool { return c.Overlaps(n) }) {
			keys = append(keys, Key{KindNetwork, n.Namespace, n.Name})
		}
	}
	return keys
}
