package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
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
	state := sidecar.State{Now: r.clock.Now(), Sidecar: r.sidecars.get(key.Namespace, key.Name)}
	if state.Sidecar == nil {
		return state, 0, errNothing
	}
	if left := r.throttle.left(key); left > 0 && state.Sidecar.Status.ObservedGeneration == state.Sidecar.Generation {
		return state, left, errNothing
	}
	state.Pods = r.pods.sorted(bySidecar, key.path())
	return state, 0, nil
}

// apply makes the dry run, then writes the status, which reports a failure.
func (r *sidecarKind) apply(ctx context.Context, key Key, state sidecar.State, plan sidecar.Plan) (Result, error) {
	steps, status, events := r.steps(key), plan.Status, plan.Events
	if plan.Probe != nil && !steps.do(sidecar.ReasonRefused, func() error { return r.probe(ctx, state, plan.Probe) }) {
		if len(steps.told) == 0 {
			return Result{}, steps.err()
		}
		status, events = sidecar.WithFailure(state, steps.told[0])
	}
	if status != nil && !steps.ended {
		next := state.Sidecar.DeepCopy()
		next.Status = *status
		if !steps.do("", func() error {
			_, err := r.writeSidecars.updateStatus(ctx, key, state.Sidecar, next)
			return err
		}) {
			return Result{}, steps.err()
		}
		r.throttle.begin(key)
	}
	r.record(state.Sidecar, events)
	return Result{}, steps.err()
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
	return ok1 && ok2 && was.UID == is.UID && attachment.Ready(was) == attachment.Ready(is) && attachment.Over(was) == attachment.Over(is) &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) && was.Annotations[v1.SidecarsAnnotation] == is.Annotations[v1.SidecarsAnnotation]
}
