//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	"github.com/pod2/pod2/pkg/network/addressslice"
)

// resyncCaches is how often informers repeat unchanged objects. 0 is never: the handlers
// would ignore them.
const resyncCaches = 0

type clients struct {
	kube        kubernetes.Interface
	sample      versioned.Interface
	underlayMTU int32
}

func newClients(o *options) (clients, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig == "" && o.master == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return clients{}, fmt.Errorf("not running in a cluster (%w): pass --kubeconfig or --master", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags(o.master, o.kubeconfig); err != nil {
		return clients{}, fmt.Errorf("read --kubeconfig=%q (--master=%q): %w", o.kubeconfig, o.master, err)
	}
	config.UserAgent = programName
	sample, err := versioned.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("make a client of %s for %s: %w", samplecrdv1.GroupName, config.Host, err)
	}
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return clients{}, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return clients{kube, sample, o.underlayMTU}, nil
}

// view holds all watches of the cluster.
type view struct {
	pods     source[dataplane.Pod]
	self     source[[]netip.Addr]
	apis     source[[]netip.AddrPort]
	nodes    source[dataplane.Slice]
	networks *networks
}

// newView watches the pods of this node that are on Networks, its Node, AddressSlices, and the endpoints of the API
// server. It passes each event to e. It also rings wake if more than the entries of maps depends on the event.
func newView(c clients, node string, e events, wake func()) *view {
	v := &view{networks: newNetworks(c, e)}
	v.pods = watch(coreinformers.NewFilteredPodInformer(c.kube, metav1.NamespaceAll, resyncCaches, nil, func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector = samplecrdv1.ManagedLabel+"=true", "spec.nodeName="+node
	}), func(pod *corev1.Pod) (dataplane.Pod, bool) {
		p, ok := dataplane.PodOf(pod)
		return p, ok && p.Node == node
	}, func(p dataplane.Pod) {
		e.SetPod(p)
		v.networks.change(p, p.Attachments)
	}, func(p dataplane.Pod) {
		e.DeletePod(p.Namespace, p.Name, p.UID)
		v.networks.change(p, nil)
	})
	v.self = watch(coreinformers.NewFilteredNodeInformer(c.kube, resyncCaches, nil, func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + node }),
		func(n *corev1.Node) ([]netip.Addr, bool) { return addressslice.NodeAddresses(n), n.Name == node },
		func(self []netip.Addr) { e.SetNode(self); wake() }, func([]netip.Addr) { e.SetNode(nil); wake() })
	ring := func([]netip.AddrPort) { wake() }
	v.apis = watch(discoveryinformers.NewFilteredEndpointSliceInformer(c.kube, metav1.NamespaceDefault, resyncCaches, nil, func(o *metav1.ListOptions) {
		o.LabelSelector = discoveryv1.LabelServiceName + "=kubernetes"
	}), endpoints, ring, ring)
	v.nodes = watchSlices(c, addressslice.NodesNamespace, samplecrdv1.NodesLabel+"=true", "",
		func(s dataplane.Slice) { e.SetSlice(s); wake() }, func(s dataplane.Slice) { e.DeleteSlice(s); wake() })
	return v
}

// events are those of a node.Node.
type events interface {
	SetPod(dataplane.Pod)
	DeletePod(namespace, name string, uid types.UID)
	SetNode(self []netip.Addr)
	SetSlice(dataplane.Slice)
	DeleteSlice(dataplane.Slice)
	DeleteNetwork(namespace, name string)
}

// endpoints of the API server.
func endpoints(slice *discoveryv1.EndpointSlice) ([]netip.AddrPort, bool) {
	var list []netip.AddrPort
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			ip, err := netip.ParseAddr(a)
			for _, p := range slice.Ports {
				if err == nil && p.Port != nil {
					list = append(list, netip.AddrPortFrom(ip.Unmap(), uint16(*p.Port)))
				}
			}
		}
	}
	return list, true
}

// start waits for the first lists. The controller writes an AddressSlice of nodes before there is a pod. While
// there is none, the agent would remove all paths to other nodes, so it waits. start returns false if ctx ended first.
func (v *view) start(ctx context.Context) bool {
	v.networks.start(ctx)
	for _, informer := range []cache.SharedIndexInformer{v.pods.informer, v.self.informer, v.apis.informer, v.nodes.informer} {
		go informer.RunWithContext(ctx)
	}
	const patience = 10 * time.Second
	logger := klog.FromContext(ctx)
	waiting := time.AfterFunc(patience, func() {
		logger.Info("Waiting for the first lists from the API server, and for an AddressSlice of nodes, which the controller writes; see this log for errors", "since", patience)
	})
	defer waiting.Stop()
	written := func() bool { return len(v.nodes.values()) > 0 }
	return cache.WaitForCacheSync(ctx.Done(), v.pods.told, v.self.told, v.apis.told, v.nodes.told, v.networks.told, written)
}

// state of the cluster without its pods and Networks, as the caches have it.
func (v *view) state() dataplane.State {
	s := dataplane.State{Self: slices.Concat(v.self.values()...)}
	for _, slice := range v.nodes.values() {
		for _, l := range slice.Locations {
			s.Nodes = append(s.Nodes, l.Address)
		}
	}
	for _, some := range v.apis.values() {
		s.APIServers = append(s.APIServers, some...)
	}
	return s
}
