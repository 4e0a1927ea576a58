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
type source[T any] struct{ informer cache.SharedIndexInformer }

// watch stores the value that of makes of each object, and calls changed when a value changes.
func watch[K metav1.Object, T any](informer cache.SharedIndexInformer, of func(K) (T, bool), changed func()) source[T] {
	err := informer.SetTransform(func(obj any) (any, error) {
		object, ok := obj.(K)
		if !ok {
			return obj, nil // already an entry, or a tombstone
		}
		e := &entry[T]{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}}
		e.value, e.counts = of(object)
		return e, nil
	})
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			DeleteFunc: func(any) { changed() },
			UpdateFunc: func(was, is any) {
				before, ok := was.(*entry[T])
				after, both := is.(*entry[T])
				if !ok || !both || before.UID != after.UID || before.counts != after.counts || !reflect.DeepEqual(before.value, after.value) {
					changed()
				}
			},
		})
	}
	if err != nil {
		panic(fmt.Sprintf("cannot set up an informer that has not started: %v", err))
	}
	return source[T]{informer}
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

// newView watches only pods that are on Networks.
func newView(c clients, changed func()) *view {
	sample := sampleinformers.NewSharedInformerFactory(c.sample, resyncCaches)
	pods := kubeinformers.NewSharedInformerFactoryWithOptions(c.kube, resyncCaches, kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = samplecrdv1.ManagedLabel + "=true"
	}))
	nodes := kubeinformers.NewSharedInformerFactory(c.kube, resyncCaches)
	apis := kubeinformers.NewSharedInformerFactoryWithOptions(c.kube, resyncCaches, kubeinformers.WithNamespace(metav1.NamespaceDefault),
		kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = discoveryv1.LabelServiceName + "=kubernetes" }))
	return &view{
		networks: watch(sample.Samplecrd().V1().Networks().Informer(), func(n *samplecrdv1.Network) (dataplane.Network, bool) {
			return dataplane.NetworkOf(n, c.underlayMTU)
		}, changed),
		pods:   watch(pods.Core().V1().Pods().Informer(), dataplane.PodOf, changed),
		nodes:  watch(nodes.Core().V1().Nodes().Informer(), func(n *corev1.Node) (dataplane.Node, bool) { return dataplane.NodeOf(n), true }, changed),
		apis:   watch(apis.Discovery().V1().EndpointSlices().Informer(), endpoints, changed),
		starts: []func(context.Context){sample.StartWithContext, pods.StartWithContext, nodes.StartWithContext, apis.StartWithContext},
	}
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
	return cache.WaitForCacheSync(ctx.Done(), v.networks.informer.HasSynced, v.pods.informer.HasSynced, v.nodes.informer.HasSynced, v.apis.informer.HasSynced)
}

// state of the cluster, as the caches have it.
func (v *view) state() dataplane.State {
	s := dataplane.State{Networks: v.networks.values(), Pods: v.pods.values(), Nodes: v.nodes.values()}
	for _, some := range v.apis.values() {
		s.APIServers = append(s.APIServers, some...)
	}
	return s
}
