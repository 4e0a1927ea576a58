package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/sidecar"
)

// sidecarKind tries each generation of a Sidecar, and counts its pods.
type sidecarKind struct {
	*shared
	throttle *throttle
}

// sidecarStatusEvery is how long the status of a Sidecar stays unchanged after a write. Many pods
// can start at once.
const sidecarStatusEvery = time.Second

func newSidecarKind(s *shared) *sidecarKind {
	return &sidecarKind{s, newThrottle(s.clock, sidecarStatusEvery)}
}

func (r *sidecarKind) observe(key Key) (sidecar.State, time.Duration, error) {
	state := r.sidecarState(key)
	if state.Sidecar == nil {
		return state, 0, errNothing
	}
	if left := r.throttle.left(key); left > 0 && state.Sidecar.Status.ObservedGeneration == state.Sidecar.Generation {
		return state, left, errNothing
	}
	return state, 0, nil
}

func (s *shared) sidecarState(key Key) sidecar.State {
	state := sidecar.State{Now: s.clock.Now(), Pods: s.pods.sorted(bySidecar, key.path()), SparesNone: map[string]bool{}}
	for _, other := range s.sidecars.in(key.Namespace) {
		if other.Name == key.Name {
			state.Sidecar = other
		} else {
			state.Others = append(state.Others, other)
		}
	}
	for _, pod := range state.Pods {
		if name := pod.Labels[v1.Pod2Label]; name != "" {
			if p := s.pod2s.get(key.Namespace, name); p != nil && pod2.SparesNone(p) {
				state.SparesNone[name] = true
			}
		}
	}
	return state
}

// A Sidecar wakes the others of its namespace, because they may conflict.
func (s *caches) wokenBySidecar(changed *v1.Sidecar) []Key {
	keys := []Key{keyOf(KindSidecar, changed)}
	for _, other := range s.sidecars.in(changed.Namespace) {
		if other.Name != changed.Name {
			keys = append(keys, keyOf(KindSidecar, other))
		}
	}
	return keys
}

// sidecarUpdates returns the updates that Sidecars allow for some pods, by UID. A pod gets
// one at a time.
func (s *shared) sidecarUpdates(namespace string, pods []*corev1.Pod) map[types.UID]pod2.SidecarUpdate {
	if len(s.sidecars.in(namespace)) == 0 {
		return nil
	}
	behind := map[string]bool{}
	for _, pod := range pods {
		for name, generation := range sidecar.Generations(pod) {
			if found := s.sidecars.get(namespace, name); found != nil && found.Status.Injected != nil && found.Status.Injected.Generation > generation {
				behind[name] = true
			}
		}
	}
	updates := map[types.UID]pod2.SidecarUpdate{}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(behind))) {
		for _, u := range sidecar.Updates(s.sidecarState(Key{KindSidecar, namespace, name})) {
			updates[u.Pod.UID] = u.SidecarUpdate
		}
	}
	return updates
}

// apply makes the dry run and the updates of pods, then writes the status, which reports
// their failures.
func (r *sidecarKind) apply(ctx context.Context, key Key, state sidecar.State, plan sidecar.Plan) (Result, error) {
	steps, status, events := r.steps(key), plan.Status, plan.Events
	var result Result
	for _, name := range plan.Pod2s {
		result.Wakes = append(result.Wakes, Key{KindPod2, key.Namespace, name})
	}
	if plan.Probe != nil && !steps.do(sidecar.ReasonRefused, func() error { return r.probe(ctx, state, plan.Probe) }) {
		if len(steps.told) == 0 {
			return result, steps.err()
		}
		status, events = sidecar.WithFailure(state, steps.told[0])
	}
	told := len(steps.told)
	if !steps.do(sidecar.ReasonFailedUpdate, func() error {
		_, err := forEachChanged(ctx, plan.InPlace, func(ctx context.Context, u pod2.InPlaceUpdate) error { return r.updateInPlace(ctx, key, u) })
		return err
	}) {
		next, failed := sidecar.WithFailedUpdates(state, status, steps.told[told:])
		status, events = next, append(events, failed...)
	}
	if status == nil || steps.ended {
		return result, steps.err() // events are about a status that is written
	}
	next := state.Sidecar.DeepCopy()
	next.Status = *status
	if steps.do("", func() error {
		_, err := r.writeSidecars.updateStatus(ctx, key, state.Sidecar, next)
		return err
	}) {
		r.throttle.begin(key)
		r.record(state.Sidecar, events)
	}
	return result, steps.err()
}

func (r *sidecarKind) probe(ctx context.Context, state sidecar.State, pod *corev1.Pod) error {
	answer, err := r.writePods.dryRun(ctx, pod)
	if err != nil {
		return err
	}
	if why := sidecar.Accepts(state, answer); why != "" {
		return errors.New(why)
	}
	return nil
}

// bySidecar finds the pods that have a Sidecar.
const bySidecar = "sidecar"

func sidecarsOfPod(pod *corev1.Pod) []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(sidecar.Generations(pod))) {
		paths = append(paths, path(pod.Namespace, name))
	}
	return paths
}

// countedAlike recognizes updates of a pod that change no count.
func countedAlike(old, new any) bool {
	was, ok1 := old.(*corev1.Pod)
	is, ok2 := new.(*corev1.Pod)
	return ok1 && ok2 && was.UID == is.UID && pod2.Available(was) == pod2.Available(is) && attachment.Over(was) == attachment.Over(is) &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) && was.Annotations[v1.SidecarsAnnotation] == is.Annotations[v1.SidecarsAnnotation]
}
