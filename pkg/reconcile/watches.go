package reconcile

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// itself returns the key of the given kind with the object's name.
func itself[T metav1.Object](kind string) wake {
	return wake{keys: waking(func(o T) []Key { return []Key{keyOf(kind, o)} })}
}

// wakingPod2 returns keys of the given kind for the Pod2s of an object.
func wakingPod2[T any](kind string, pod2s func(T) []string) func(T) []Key {
	return func(o T) []Key { return keysOf(kind, pod2s(o)) }
}

// A Network wakes itself, and the other Networks that its waiting pods wait for.
func (s *caches) wokenByNetwork(n *v1.Network) []Key {
	return append(s.waitingNetworks(n.Namespace, n.Name), keyOf(KindNetwork, n))
}

// pod2sOn returns the Pod2s whose conditions say why their pods wait for a Network.
func (s *caches) pod2sOn(n *v1.Network) []Key {
	var keys []Key
	for _, p := range s.pod2s.by(byNetwork, pathOf(n)) {
		keys = append(keys, keyOf(KindPod2, p))
	}
	return keys
}

// sameForWorkloads recognizes updates of a Network that concern no Pod2 and no CronTab. While one
// of a thousand Pod2s starts, the numbers in the Network's status change twice a second.
func sameForWorkloads(old, new any) bool {
	was, ok1 := old.(*v1.Network)
	is, ok2 := new.(*v1.Network)
	available := func(n *v1.Network) *metav1.Condition {
		return meta.FindStatusCondition(n.Status.Conditions, v1.ConditionAddressesAvailable)
	}
	return ok1 && ok2 && sameSpec(old, new) && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(available(was), available(is))
}

// waitingNetworks returns the other Networks of the pods that wait for this one, because
// such a pod is bound on all of them or on none.
func (s *caches) waitingNetworks(namespace, name string) []Key {
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

// An AddressBlock wakes its Network, the other Networks that its waiting pods wait for,
// and the Pod2s whose replicas wait for one of its addresses. It also wakes the pods that
// it binds and that have yet to publish, or whose condition says that they wait.
func (s *caches) wokenByBlock(block *v1.AddressBlock) []Key {
	keys := append(s.waitingNetworks(block.Namespace, block.Spec.Network), Key{KindNetwork, block.Namespace, block.Spec.Network})
	keys = append(keys, s.waitingPod2s(block.Namespace, block.Spec.Network)...)
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

// waitingPod2s returns the Pod2s with a replica that may wait for an address of the
// Network: they ask for addresses of it and are not complete. A Pod2 whose
// status does not say so yet decides again when its status is written.
func (s *caches) waitingPod2s(namespace, network string) []Key {
	var keys []Key
	for _, p := range s.pod2s.by(byNetwork, path(namespace, network)) {
		wants := slices.ContainsFunc(p.Spec.Networks, func(n v1.Pod2Network) bool { return n.Name == network && len(n.Addresses) > 0 })
		progress := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionProgressing)
		if wants && (progress == nil || progress.Reason != pod2.ReasonComplete) {
			keys = append(keys, keyOf(KindPod2, p))
		}
	}
	return keys
}

// A pod wakes itself if there may be something to decide about it. It wakes the Networks that
// it asks for or publishes, and those whose AddressBlocks name it, because a user may have
// removed its annotations. It also wakes the Pod2 that it is a replica of or conflicts with.
func (s *caches) wokenByPod(pod *corev1.Pod) []Key {
	var keys []Key
	if !network.Served(pod) {
		keys = append(keys, keyOf(KindPod, pod))
	}
	networks := networksOfPod(pod)
	for _, block := range s.blocksNaming(pod.Namespace, pod.Name) {
		networks = append(networks, path(block.Namespace, block.Spec.Network))
	}
	return append(append(keys, keysOf(KindNetwork, networks)...), keysOf(KindPod2, pod2sOfPod(pod))...)
}

// How long updates by the scheduler and kubelets may wait for more of them. For a Pod2
// this is perAwaited for each unavailable replica and at least perReplica for each of all,
// at least podProgress and at most mostProgress. Each of 2,000 starting pods changes about
// five times, and a sync looks at those that are unavailable, or compares all with the cache before it
// takes pods away: about a microsecond for each. So these syncs use at most a twentieth of a core. A
// rollout that waits for one replica at a time is hardly delayed.
const (
	podProgress  = 50 * time.Millisecond
	perAwaited   = 50 * time.Microsecond
	perReplica   = 20 * time.Microsecond
	mostProgress = time.Second
)

// podPatience: a live pod with its addresses makes progress, and so does a pod that is
// being deleted. Its replacement cannot be created before it is gone, which is not an
// update. An earlier sync would write a status about the deletion, and the replacement
// would wait until the cache shows that status. Other updates do not wait: a terminated
// pod must be replaced, and a gated pod needs addresses.
func (s *caches) podPatience(old, new any) time.Duration {
	was, ok1 := old.(*corev1.Pod)
	is, ok2 := new.(*corev1.Pod)
	if !ok1 || !ok2 || was.UID != is.UID || attachment.Over(is) || attachment.Gated(is) {
		return 0
	}
	patience := podProgress
	for _, name := range pod2.Concerned(is) {
		if p := s.pod2s.get(is.Namespace, name); p != nil {
			awaited := p.Status.Replicas - p.Status.AvailableReplicas
			patience = max(patience, min(mostProgress, max(time.Duration(awaited)*perAwaited, time.Duration(p.Status.Replicas)*perReplica)))
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

// waitingWithPod2 returns the Pod2s that may wait for an address which is reserved for a replica of this one: it becomes
// available if that replica is scaled down. No AddressBlock changes then. New Pod2s wake no others: the time of a first list
// would grow with its square.
func (s *caches) waitingWithPod2(p *v1.Pod2) []Key { return s.waitingOn(p.Namespace, pod2.Networks(p)) }

func (s *caches) waitingWithSet(set *appsv1.StatefulSet) []Key {
	return s.waitingOn(set.Namespace, attachment.RequestedNetworks(set.Spec.Template.Annotations))
}

func (s *caches) waitingOn(namespace string, networks []string) (keys []Key) {
	for _, name := range networks {
		keys = append(keys, s.waitingPod2s(namespace, name)...)
	}
	return keys
}

// sameGeneration recognizes updates that leave the spec.
func sameGeneration(old, new any) bool {
	was, ok1 := old.(metav1.Object)
	is, ok2 := new.(metav1.Object)
	return ok1 && ok2 && was.GetUID() == is.GetUID() && was.GetGeneration() == is.GetGeneration()
}

// A StorageClass wakes the Pod2s of its PVCs, because it decides whether they may grow.
func (s *caches) wokenByClass(class *storagev1.StorageClass) []Key {
	var keys []Key
	for _, claim := range s.claims.by(byClass, class.Name) {
		keys = append(keys, keysOf(KindPod2, labelledPod2(claim))...)
	}
	return keys
}
