package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// steady remembers, for each Pod2, its steady replicas, and its other pods and PVCs. So the cost of a sync depends
// on the changes and on the replicas that are not steady, as with ledgers.
//
// An event may be later than the cache: until then, an older version of a pod counts as steady. So all steady
// replicas are compared with the cache before a plan takes pods away, which depends on how many others
// are available.
type steady struct {
	mu sync.Mutex
	of map[Key]rememberedPods
}

type rememberedPods struct {
	replicas *pod2.Steady
	others   []*corev1.Pod
	// claims are the PVCs that belong to no steady replica.
	claims []*corev1.PersistentVolumeClaim
	// compare: the last plan may take pods away, so the next view compares all pods with the cache.
	compare bool
}

func newSteady() *steady { return &steady{of: map[Key]rememberedPods{}} }

func (m *steady) get(key Key) rememberedPods {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[key]
}

// keep remembers pods. Without steady replicas, it forgets them.
func (m *steady) keep(key Key, is rememberedPods) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[key] = is; is.replicas == nil {
		delete(m.of, key)
	}
}

// observePods fills in the pods and PVCs of a State, without the steady replicas if these are known.
func (r *pod2Kind) observePods(key Key, state *pod2.State) (again time.Duration) {
	changed, whole := r.podEvents.take(key)
	known := r.steady.get(key)
	few := len(known.others)+len(known.claims)+len(changed) <= known.replicas.Count() // for many, the index is faster
	if whole || !few || !known.replicas.Fits(*state) || len(r.sidecars.in(key.Namespace)) > 0 || r.sighted(state.Pod2) {
		r.steady.keep(key, rememberedPods{})
		var claims time.Duration
		state.Pods, again = r.podsOfPod2(key)
		state.Claims, claims = r.claimsOfPod2(key, state.Pod2)
		if again = plan.Soonest(again, claims); again > 0 { // no event reports the deletion of an object that only a live read found
			r.podEvents.doubtOne(key)
		}
		return again
	}
	if known.compare { // one read, because the budget depends on pods of one moment
		state.Steady, state.Pods = known.replicas.Without(changed).Among(r.pods.by(byPod2, key.path()))
		sortByName(state.Pods)
		state.Claims = r.otherClaims(*state, known, changed)
		r.steady.keep(key, rememberedPods{state.Steady, state.Pods, state.Claims, true})
		return 0
	}
	for _, pod := range known.others {
		switch is := r.pods.get(key.Namespace, pod.Name); {
		case is == pod:
			state.Pods = append(state.Pods, pod)
			delete(changed, pod.Name)
		case is != nil:
			changed[pod.Name] = true
		}
	}
	for name := range changed {
		if pod := r.pods.get(key.Namespace, name); pod != nil && slices.Contains(pod2.Concerned(pod), key.Name) {
			state.Pods = append(state.Pods, pod)
		}
	}
	if len(changed) > 0 {
		sortByName(state.Pods)
	}
	state.Steady = known.replicas.Without(changed)
	state.Claims = r.otherClaims(*state, known, changed)
	r.steady.keep(key, rememberedPods{replicas: state.Steady, others: state.Pods, claims: state.Claims}) // the events are taken, even if the sync fails
	return 0
}

// otherClaims returns the PVCs that belong to no steady replica: those of the other replicas, also of surge
// replicas and of pods that the cache has no more, those with events, and those that were known. They are as the
// cache has them now.
func (r *pod2Kind) otherClaims(state pod2.State, known rememberedPods, changed map[string]bool) []*corev1.PersistentVolumeClaim {
	if len(state.Pod2.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	var names []string
	for _, claim := range known.claims {
		names = append(names, claim.Name)
	}
	pods := slices.AppendSeq(state.Steady.Others(), maps.Keys(changed))
	for _, pod := range slices.Concat(known.others, state.Pods) {
		pods = append(pods, pod.Name)
	}
	for _, pod := range pods {
		names = append(names, pod2.ClaimNames(state.Pod2, pod)...)
	}
	slices.Sort(names)
	var claims []*corev1.PersistentVolumeClaim
	for _, name := range slices.Compact(names) {
		if claim := r.claims.get(state.Pod2.Namespace, name); claim != nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// sighted reports whether a live read found a pod or a PVC with the name of a replica's.
func (r *pod2Kind) sighted(p *v1.Pod2) bool {
	for name := range r.writePods.unwatched.names(p.Namespace) {
		if _, replica := ordinals.Parse(p.Name, name); replica {
			return true
		}
	}
	for name := range r.writeClaims.unwatched.names(p.Namespace) {
		if _, ours := pod2.ClaimOrdinal(p, name); ours {
			return true
		}
	}
	return false
}

// claimChanged records, for each Pod2 that may have the PVC, an event of the replica's pod.
func (s *shared) claimChanged(claim *corev1.PersistentVolumeClaim) []Key {
	keys := keysOf(KindPod2, pod2sOfClaim(claim))
	if _, ordinal, ok := ordinals.Split(claim.Name); ok {
		for _, key := range keys {
			s.podEvents.changed([]Key{key}, ordinals.Name(key.Name, ordinal))
		}
	}
	return keys
}

// sameClaim recognizes updates of a PVC that no decision reads. A PVC is updated a few times before it is
// bound, by the scheduler, the storage driver and kube-controller-manager.
func sameClaim(old, new any) bool {
	was, ok1 := old.(*corev1.PersistentVolumeClaim)
	is, ok2 := new.(*corev1.PersistentVolumeClaim)
	return ok1 && ok2 && was.UID == is.UID && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		maps.Equal(was.Labels, is.Labels) && was.Annotations[v1.SurgeClaimAnnotation] == is.Annotations[v1.SurgeClaimAnnotation] &&
		equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences) && equality.Semantic.DeepEqual(was.Spec.Resources, is.Spec.Resources) &&
		ptr.Equal(was.Spec.StorageClassName, is.Spec.StorageClassName) && equality.Semantic.DeepEqual(was.Status, is.Status)
}
