package reconcile

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/pod2"
)

// refused remembers, by Pod2, the last resize of each pod that the API server
// called invalid; observe puts them into the State. It is no more than a saving: a
// controller that knows nothing asks once, and is refused once.
type refused struct {
	mu    sync.Mutex
	byKey map[Key]map[types.UID]pod2.Refusal
}

func newRefused() *refused { return &refused{byKey: map[Key]map[types.UID]pod2.Refusal{}} }

func (r *refused) remember(key Key, uid types.UID, refusal pod2.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[key] == nil {
		r.byKey[key] = map[types.UID]pod2.Refusal{}
	}
	r.byKey[key][uid] = refusal
}

// without those that were refused.
func (r *refused) without(key Key, resizes []pod2.Resize) []pod2.Resize {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(resizes, func(resize pod2.Resize) bool {
		refusal, ok := r.byKey[key][resize.UID]
		return ok && equality.Semantic.DeepEqual(refusal.Resources, resize.Resources)
	})
}

// of the pods that there are; those of others are forgotten.
func (r *refused) of(key Key, pods []*corev1.Pod) map[types.UID]pod2.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.byKey[key], func(uid types.UID, _ pod2.Refusal) bool {
		return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == uid })
	})
	if len(r.byKey[key]) == 0 {
		delete(r.byKey, key)
	}
	return maps.Clone(r.byKey[key])
}
