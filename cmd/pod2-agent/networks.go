//go:build linux

package main

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions/samplecrd/v1"
)

// watchSlices of a Network, or of nodes if that is "".
func watchSlices(c clients, namespace, selector, network string, set, del func(dataplane.Slice)) source[dataplane.Slice] {
	informer := sampleinformers.NewFilteredAddressSliceInformer(c.sample, namespace, resyncCaches, nil, func(o *metav1.ListOptions) { o.LabelSelector = selector })
	return watch(informer, func(slice *samplecrdv1.AddressSlice) (dataplane.Slice, bool) {
		s := dataplane.SliceOf(slice, c.underlayMTU)
		return s, s.Network == network
	}, set, del)
}

// networks has a watch of AddressSlices for each Network that a pod of this node is on.
type networks struct {
	clients
	events
	ctx context.Context

	mu       sync.Mutex
	on       map[types.NamespacedName][]dataplane.Attachment // by pod
	followed map[types.NamespacedName]*followed
}

// followed is a Network with the number of its pods on this node.
type followed struct {
	pods   int
	slices source[dataplane.Slice]
	stop   func()
}

func newNetworks(c clients, e events) *networks {
	return &networks{clients: c, events: e, on: map[types.NamespacedName][]dataplane.Attachment{}, followed: map[types.NamespacedName]*followed{}}
}

// start: watches end with ctx.
func (n *networks) start(ctx context.Context) { n.ctx = ctx }

// change the Networks of a pod. The events of pods call it one by one.
func (n *networks) change(p dataplane.Pod, is []dataplane.Attachment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range is {
		n.enter(types.NamespacedName{Namespace: p.Namespace, Name: a.Network})
	}
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	for _, a := range n.on[key] {
		n.leave(types.NamespacedName{Namespace: p.Namespace, Name: a.Network})
	}
	if n.on[key] = is; len(is) == 0 {
		delete(n.on, key)
	}
}

func (n *networks) enter(network types.NamespacedName) {
	f := n.followed[network]
	if f == nil {
		f = &followed{slices: watchSlices(n.clients, network.Namespace, samplecrdv1.NetworkLabel+"="+network.Name, network.Name, n.SetSlice, n.DeleteSlice)}
		ctx, cancel := context.WithCancel(n.ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.slices.informer.RunWithContext(ctx)
		}()
		f.stop = func() { cancel(); <-ended }
		n.followed[network] = f
	}
	f.pods++
}

// leave the Network after its last pod. Its events have ended when its slices are deleted.
func (n *networks) leave(network types.NamespacedName) {
	f := n.followed[network]
	if f.pods--; f.pods == 0 {
		delete(n.followed, network)
		f.stop()
		n.DeleteNetwork(network.Namespace, network.Name)
	}
}

// told: the first lists of all Networks have arrived.
func (n *networks) told() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.followed {
		if !f.slices.told() {
			return false
		}
	}
	return true
}
