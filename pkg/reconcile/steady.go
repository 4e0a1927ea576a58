package reconcile

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/pod2"
)

// steady remembers, for each Pod2, its steady replicas and its other pods. So the cost of a sync depends
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

// observePods fills in the pods of a State, without the steady replicas if these are known.
func (r *pod2Kind) observePods(key Key, state *pod2.State) (again time.Duration) {
	changed, whole := r.podEvents.take(key)
	known := r.steady.get(key)
	few := len(known.others)+len(changed) <= known.replicas.Count() // for many, the index is faster
	if whole || !few || !known.replicas.Fits(*state) || len(r.sidecars.in(key.Namespace)) > 0 || r.sighted(key) {
		r.steady.keep(key, rememberedPods{})
		state.Pods, again = r.podsOfPod2(key)
		if again > 0 { // no event reports the deletion of a pod that only a live read found
			r.podEvents.doubtOne(key)
		}
		return again
	}
	if known.compare { // one read, because the budget depends on pods of one moment
		state.Steady, state.Pods = known.replicas.Among(r.pods.by(byPod2, key.path()))
		sortByName(state.Pods)
		r.steady.keep(key, rememberedPods{state.Steady, state.Pods, true})
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
	r.steady.keep(key, rememberedPods{replicas: state.Steady, others: state.Pods}) // the events are taken, even if the sync fails
	return 0
}

// sighted reports whether a live read found a pod with the name of a replica.
func (r *pod2Kind) sighted(key Key) bool {
	for name := range r.writePods.unwatched.names(key.Namespace) {
		if _, replica := ordinals.Parse(key.Name, name); replica {
			return true
		}
	}
	return false
}
