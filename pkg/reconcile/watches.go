package reconcile

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// itself is the key of that kind that has the name of the object.
func itself[T metav1.Object](kind string) wake {
	return wake{keys: waking(func(o T) []Key { return []Key{keyOf(kind, o)} })}
}

// wakingPod2 are keys of that kind for the Pod2s of an object.
func wakingPod2[T any](kind string, pod2s func(T) []string) func(T) []Key {
	return func(o T) []Key { return keysOf(kind, pod2s(o)) }
}

// A Network wakes itself, the Networks that its waiting pods also wait for, and the Pod2s that
// say in their conditions why their pods wait.
func (s *shared) wokenByNetwork(n *v1.Network) []Key {
	keys := append(s.waitingNetworks(n.Namespace, n.Name), keyOf(KindNetwork, n))
	for _, p := range s.pod2s.by(byNetwork, pathOf(n)) {
		keys = append(keys, keyOf(KindPod2, p))
	}
	return keys
}

// waitingNetworks are the other Networks of the pods that wait for this one, since
// such a pod is bound on all of them or on none.
func (s *shared) waitingNetworks(namespace, name string) []Key {
	var keys []Key
	for _, pod := range s.pods.by(byWaiting, path(namespace, name)) {
		requests, _ := network.Wants(pod)
		for _, request := range requests {
			if request.Network != name {
				keys = append(keys, Key{KindNetwork, namespace, request.Network})
			}
		}
	}
	return keys
}

// A block wakes its Network, the Networks that pods wait for besides, the Pod2s whose replicas wait
// for an address of it, and the pods it binds that have yet to publish, or whose condition says that
// they wait.
func (s *shared) wokenByBlock(block *v1.AddressBlock) []Key {
	keys := append(s.waitingNetworks(block.Namespace, block.Spec.Network), Key{KindNetwork, block.Namespace, block.Spec.Network})
	keys = append(keys, s.waitingPod2s(block)...)
	for _, e := range block.Spec.Entries {
		if e.State != v1.AddressBound {
			continue
		}
		pod := s.pods.get(block.Namespace, e.Pod)
		if pod != nil && pod.UID == e.PodUID && (attachment.Gated(pod) || network.SaysItWaits(pod)) {
			keys = append(keys, keyOf(KindPod, pod))
		}
	}
	return keys
}

// waitingPod2s are those of which a replica may wait for an address of the block: they
// want addresses of its Network by name and are not complete. What one of them decided
// before its status says so, it decides anew when its status was written.
func (s *shared) waitingPod2s(block *v1.AddressBlock) []Key {
	var keys []Key
	for _, p := range s.pod2s.by(byNetwork, path(block.Namespace, block.Spec.Network)) {
		wants := slices.ContainsFunc(p.Spec.Networks, func(n v1.Pod2Network) bool { return n.Name == block.Spec.Network && len(n.Addresses) > 0 })
		progress := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionProgressing)
		if wants && (progress == nil || progress.Reason != pod2.ReasonComplete) {
			keys = append(keys, keyOf(KindPod2, p))
		}
	}
	return keys
}

// A pod wakes itself if it asks for anything, the Networks it asks for or
// publishes or whose ledger names it (somebody may have removed its annotations),
// and the Pod2 that it is a replica of or stands in the way of.
func (s *shared) wokenByPod(pod *corev1.Pod) []Key {
	var keys []Key
	if _, asks := pod.Annotations[v1.NetworksAnnotation]; asks || attachment.Gated(pod) {
		keys = append(keys, keyOf(KindPod, pod))
	}
	networks := networksOfPod(pod)
	for _, block := range s.blocks.by(byPod, pathOf(pod)) {
		networks = append(networks, path(block.Namespace, block.Spec.Network))
	}
	return append(append(keys, keysOf(KindNetwork, networks)...), keysOf(KindPod2, pod2sOfPod(pod))...)
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
func (s *shared) podPatience(old, new any) time.Duration {
	was, ok1 := old.(*corev1.Pod)
	is, ok2 := new.(*corev1.Pod)
	if !ok1 || !ok2 || was.UID != is.UID || attachment.Over(is) || attachment.Gated(is) {
		return 0
	}
	patience := podProgress
	for _, name := range pod2.Concerned(is) {
		if p := s.pod2s.get(is.Namespace, name); p != nil {
			awaited := p.Status.Replicas - p.Status.AvailableReplicas
			patience = max(patience, min(mostProgress, time.Duration(awaited)*progressPerReplica))
		}
	}
	return patience
}

// A Pod2 wakes itself and the Networks that reserve addresses for it.
func wokenByPod2(p *v1.Pod2) []Key {
	return append(keysOf(KindNetwork, networksOfPod2(p)), keyOf(KindPod2, p))
}

// A StatefulSet wakes the Networks that reserve addresses for it.
func wokenByStatefulSet(set *appsv1.StatefulSet) []Key {
	return keysOf(KindNetwork, inNamespace(set.Namespace, attachment.RequestedNetworks(set.Spec.Template.Annotations)))
}

// A StorageClass wakes the Pod2s of its claims, which may grow or not.
func (s *shared) wokenByClass(class *storagev1.StorageClass) []Key {
	var keys []Key
	for _, claim := range s.claims.by(byClass, class.Name) {
		keys = append(keys, keysOf(KindPod2, labelledPod2(claim))...)
	}
	return keys
}
