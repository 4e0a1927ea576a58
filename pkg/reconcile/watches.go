package reconcile

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// Watches says which keys an event of which informer concerns. Who asks passes all
// events on, from the first.
func (r *Reconciler) Watches() []Watch {
	r.ledgers.feed()
	return slices.Concat([]Watch{
		{Informer: r.informers.Networks.Informer(), Keys: r.networkKeys},
		{Informer: r.informers.Blocks.Informer(), Keys: r.blockKeys},
		{Informer: r.informers.Pods.Informer(), Keys: r.podChanged, Patience: r.podPatience},
		{Informer: r.informers.Pod2s.Informer(), Keys: r.pod2Keys},
		{Informer: r.informers.StatefulSets.Informer(), Keys: r.statefulSetKeys},
		{Informer: r.informers.Revisions.Informer(), Keys: revisionKeys},
		{Informer: r.informers.Claims.Informer(), Keys: claimKeys},
		{Informer: r.informers.Classes.Informer(), Keys: r.classKeys},
	}, r.cronTabWatches(), r.endpointsWatches(), r.definitionWatches(), r.nodeWatches(), r.clusterWatches())
}

// A Network concerns itself, the Networks that its waiting pods also wait for,
// and the Pod2s that say in their conditions why their pods wait.
func (r *Reconciler) networkKeys(obj any) []Key {
	n, ok := obj.(*v1.Network)
	if !ok {
		return nil
	}
	keys := append(r.waitingKeys(n.Namespace, n.Name), Key{KindNetwork, n.Namespace, n.Name})
	for _, p := range indexed[*v1.Pod2](r.pod2Index, byNetwork, path(n.Namespace, n.Name)) {
		keys = append(keys, Key{KindPod2, p.Namespace, p.Name})
	}
	return keys
}

// waitingKeys are the other Networks of the pods that wait for this one, since
// such a pod is bound on all of them or on none.
func (r *Reconciler) waitingKeys(namespace, name string) []Key {
	var keys []Key
	for _, pod := range indexed[*corev1.Pod](r.podIndex, byWaiting, path(namespace, name)) {
		requests, _ := network.Wants(pod)
		for _, request := range requests {
			if request.Network != name {
				keys = append(keys, Key{KindNetwork, namespace, request.Network})
			}
		}
	}
	return keys
}

// A block concerns its Network, the Networks that pods wait for besides, the Pod2s
// whose replicas wait for an address of it, and the pods it binds that have yet to publish, or whose condition says that they wait.
func (r *Reconciler) blockKeys(obj any) []Key {
	block, ok := obj.(*v1.AddressBlock)
	if !ok {
		return nil
	}
	keys := append(r.waitingKeys(block.Namespace, block.Spec.Network), Key{KindNetwork, block.Namespace, block.Spec.Network})
	keys = append(keys, r.waitingPod2Keys(block)...)
	for _, e := range block.Spec.Entries {
		if e.State != v1.AddressBound {
			continue
		}
		pod, err := r.pods.Pods(block.Namespace).Get(e.Pod)
		if err == nil && pod.UID == e.PodUID && (attachment.Gated(pod) || network.SaysItWaits(pod)) {
			keys = append(keys, Key{KindPod, pod.Namespace, pod.Name})
		}
	}
	return keys
}

// podChanged notes which pod there was an event of, for the syncs of its Networks. A pod
// that makes podKeys panic is one of any Network.
func (r *Reconciler) podChanged(obj any) (keys []Key) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	known := false
	defer func() {
		if known {
			r.ledgers.changed(keys, pod.Name)
		} else {
			r.ledgers.doubt(pod.Namespace)
		}
	}()
	keys = r.podKeys(pod)
	known = true
	return keys
}

// How long what scheduler and kubelets do with pods may wait for more of it: for a Pod2,
// so much for each of its replicas that is not available, no less than podProgress and no
// more than a second. Each of 2,000 pods that start changes some five times, and a look at
// all of them takes milliseconds: at 20 looks a second that was more than half of all that
// the controller computed. Where one replica at a time is waited for, nothing is.
const (
	podProgress        = 50 * time.Millisecond
	progressPerReplica = 100 * time.Microsecond
	mostProgress       = time.Second
)

// podPatience: a pod that lives and has its addresses makes progress, and so does one
// that is being deleted: nothing takes its place before it is gone, which is no update.
// Were it looked at before, the status would be written that it goes, and only once our
// cache shows that would its successor be created. Nothing else waits: a pod that is
// over is to be replaced, one that is gated wants addresses.
func (r *Reconciler) podPatience(old, new any) time.Duration {
	was, ok1 := old.(*corev1.Pod)
	is, ok2 := new.(*corev1.Pod)
	if !ok1 || !ok2 || was.UID != is.UID || attachment.Over(is) || attachment.Gated(is) {
		return 0
	}
	patience := podProgress
	for _, name := range pod2.Concerned(is) {
		if p, err := r.pod2s.Pod2s(is.Namespace).Get(name); err == nil {
			awaited := p.Status.Replicas - p.Status.AvailableReplicas
			patience = max(patience, min(mostProgress, time.Duration(awaited)*progressPerReplica))
		}
	}
	return patience
}

// A pod concerns itself if it asks for anything, the Networks it asks for or
// publishes or whose ledger names it (somebody may have removed its annotations),
// and the Pod2 that it is a replica of or stands in the way of.
func (r *Reconciler) podKeys(obj any) []Key {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	var keys []Key
	if _, asks := pod.Annotations[v1.NetworksAnnotation]; asks || attachment.Gated(pod) {
		keys = append(keys, Key{KindPod, pod.Namespace, pod.Name})
	}
	networks, _ := podNetworks(pod)
	for _, block := range indexed[*v1.AddressBlock](r.blockIndex, byPod, path(pod.Namespace, pod.Name)) {
		networks = append(networks, path(block.Namespace, block.Spec.Network))
	}
	pod2s, _ := podPod2s(pod)
	return append(append(keys, keysOf(KindNetwork, networks)...), keysOf(KindPod2, pod2s)...)
}

// A Pod2 concerns itself and the Networks that reserve addresses for it.
func (r *Reconciler) pod2Keys(obj any) []Key {
	p, ok := obj.(*v1.Pod2)
	if !ok {
		return nil
	}
	networks, _ := pod2Networks(p)
	return append(keysOf(KindNetwork, networks), Key{KindPod2, p.Namespace, p.Name})
}

// A StatefulSet concerns the Networks that reserve addresses for it.
func (r *Reconciler) statefulSetKeys(obj any) []Key {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	var keys []Key
	for _, name := range attachment.RequestedNetworks(set.Spec.Template.Annotations) {
		keys = append(keys, Key{KindNetwork, set.Namespace, name})
	}
	return keys
}

func keysOf(kind string, paths []string) []Key {
	keys := make([]Key, 0, len(paths))
	for _, p := range paths {
		namespace, name, _ := cache.SplitMetaNamespaceKey(p)
		keys = append(keys, Key{kind, namespace, name})
	}
	return keys
}

// indexed is what an index holds under a value, in no order. The error of an
// unknown index is a bug that the first sync of any test meets.
func indexed[T any](indexer cache.Indexer, index, value string) []T {
	objects, err := indexer.ByIndex(index, value)
	if err != nil {
		panic(err)
	}
	typed := make([]T, 0, len(objects))
	for _, obj := range objects {
		typed = append(typed, obj.(T))
	}
	return typed
}
