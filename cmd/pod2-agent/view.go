//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	sampleinformers "github.com/pod2/pod2/pkg/client/informers/externalversions"
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

// entry is the stored part of an object: the value for decisions, and metadata for the cache.
type entry[T any] struct {
	metav1.ObjectMeta
	value  T
	counts bool
}

// source keeps the values of one kind of object.
type source[T any] struct {
	informer cache.SharedIndexInformer
	// told: the handlers got all objects of the first list.
	told cache.InformerSynced
}

// watch stores the value that of makes of each object. It calls set with each new value that counts, and
// del with each one that counts no more.
func watch[K metav1.Object, T any](informer cache.SharedIndexInformer, of func(K) (T, bool), set, del func(T)) source[T] {
	err := informer.SetTransform(func(obj any) (any, error) {
		object, ok := obj.(K)
		if !ok {
			return obj, nil // already an entry, or a tombstone
		}
		e := &entry[T]{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}}
		e.value, e.counts = of(object)
		return e, nil
	})
	change := func(was, is *entry[T]) {
		switch {
		case is != nil && is.counts && (was == nil || was.UID != is.UID || !was.counts || !reflect.DeepEqual(was.value, is.value)):
			set(is.value)
		case was != nil && was.counts && (is == nil || !is.counts):
			del(was.value)
		}
	}
	var registration cache.ResourceEventHandlerRegistration
	if err == nil {
		registration, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(is any) { change(nil, entryOf[T](is)) },
			UpdateFunc: func(was, is any) { change(entryOf[T](was), entryOf[T](is)) },
			DeleteFunc: func(was any) { change(entryOf[T](was), nil) },
		})
	}
	if err != nil {
		panic(fmt.Sprintf("cannot set up an informer that has not started: %v", err))
	}
	return source[T]{informer, registration.HasSynced}
}

// entryOf an object of a handler, which may be a tombstone.
func entryOf[T any](obj any) *entry[T] {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	e, _ := obj.(*entry[T])
	return e
}

func (s source[T]) values() []T {
	var list []T
	for _, obj := range s.informer.GetStore().List() {
		if e, ok := obj.(*entry[T]); ok && e.counts {
			list = append(list, e.value)
		}
	}
	return list
}

// view holds all watches of the cluster.
type view struct {
	networks source[dataplane.Network]
	pods     source[dataplane.Pod]
	nodes    source[dataplane.Node]
	apis     source[[]netip.AddrPort]

	starts []func(context.Context)
}

// newView watches only pods that are on Networks. It passes each event to e. It also rings wake if more than the
// entries of maps depends on the event.
func newView(c clients, e events, wake func()) *view {
	sample := sampleinformers.NewSharedInformerFactory(c.sample, resyncCaches)
	pods := kubeinformers.NewSharedInformerFactoryWithOptions(c.kube, resyncCaches, kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = samplecrdv1.ManagedLabel + "=true"
	}))
	nodes := kubeinformers.NewSharedInformerFactory(c.kube, resyncCaches)
	apis := kubeinformers.NewSharedInformerFactoryWithOptions(c.kube, resyncCaches, kubeinformers.WithNamespace(metav1.NamespaceDefault),
		kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = discoveryv1.LabelServiceName + "=kubernetes" }))
	ring := func([]netip.AddrPort) { wake() }
	return &view{
		networks: watch(sample.Samplecrd().V1().Networks().Informer(), func(n *samplecrdv1.Network) (dataplane.Network, bool) {
			return dataplane.NetworkOf(n, c.underlayMTU)
		}, func(n dataplane.Network) { e.SetNetwork(n); wake() }, func(n dataplane.Network) { e.DeleteNetwork(n.Namespace, n.Name); wake() }),
		pods: watch(pods.Core().V1().Pods().Informer(), dataplane.PodOf,
			func(p dataplane.Pod) { e.SetPod(p) }, func(p dataplane.Pod) { e.DeletePod(p.Namespace, p.Name, p.UID) }),
		nodes: watch(nodes.Core().V1().Nodes().Informer(), func(n *corev1.Node) (dataplane.Node, bool) { return dataplane.NodeOf(n), true },
			func(n dataplane.Node) { e.SetNode(n); wake() }, func(n dataplane.Node) { e.DeleteNode(n.Name); wake() }),
		apis:   watch(apis.Discovery().V1().EndpointSlices().Informer(), endpoints, ring, ring),
		starts: []func(context.Context){sample.StartWithContext, pods.StartWithContext, nodes.StartWithContext, apis.StartWithContext},
	}
}

// events are those of a node.Node.
type events interface {
	SetPod(dataplane.Pod)
	DeletePod(namespace, name string, uid types.UID)
	SetNetwork(dataplane.Network)
	DeleteNetwork(namespace, name string)
	SetNode(dataplane.Node)
	DeleteNode(name string)
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

// start waits for the first lists. It returns false if ctx ended first.
func (v *view) start(ctx context.Context) bool {
	for _, start := range v.starts {
		start(ctx)
	}
	const patience = 10 * time.Second
	logger := klog.FromContext(ctx)
	waiting := time.AfterFunc(patience, func() {
		logger.Info("Waiting for the first lists from the API server; see this log for errors", "since", patience)
	})
	defer waiting.Stop()
	return cache.WaitForCacheSync(ctx.Done(), v.networks.told, v.pods.told, v.nodes.told, v.apis.told)
}

// state of the cluster without its pods, as the caches have it.
func (v *view) state() dataplane.State {
	s := dataplane.State{Networks: v.networks.values(), Nodes: v.nodes.values()}
	for _, some := range v.apis.values() {
		s.APIServers = append(s.APIServers, some...)
	}
	return s
}
