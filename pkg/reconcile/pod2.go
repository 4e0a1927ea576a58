package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

func (r *Reconciler) syncPod2(ctx context.Context, key Key) (Result, error) {
	state, again, err := r.observePod2(key)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	if state.Pod2 == nil {
		r.refused.of(key, nil)
		return Result{}, nil
	}
	plan := pod2.Diff(state)
	if left := r.counts.left(key); left > 0 && plan.StatusMayWait(state) {
		plan.Status, again = nil, soonest(again, left)
	}
	if err := r.applyPod2(ctx, key, state, plan); err != nil {
		return Result{}, err
	}
	return Result{RequeueAfter: soonest(plan.RequeueAfter, again)}, nil
}

// observePod2 reads the view of one Pod2; its Pod2 is nil when there is none. The
// delay is when to look again at what no event tells; zero: never.
func (r *Reconciler) observePod2(key Key) (state pod2.State, again time.Duration, err error) {
	state.Now = r.clock.Now()
	cached, err := absent(r.pod2s.Pod2s(key.Namespace).Get(key.Name))
	if err != nil || cached == nil {
		return state, 0, err
	}
	state.Pod2 = pod2.Defaulted(cached)
	for _, name := range pod2.Networks(cached) {
		n, err := r.getNetwork(key.Namespace, name)
		if err != nil {
			return state, 0, err
		}
		if n != nil {
			state.Networks = append(state.Networks, n)
		}
	}
	slices.SortFunc(state.Networks, plan.ByName)
	state.Revisions = indexed[*appsv1.ControllerRevision](r.informers.Revisions.Informer().GetIndexer(), byPod2, path(key.Namespace, key.Name))
	slices.SortFunc(state.Revisions, plan.ByName)
	againClaims, err := r.observeClaims(key, &state)
	if err != nil {
		return state, 0, err
	}
	if state.Holders, err = r.holders(cached); err != nil {
		return state, 0, err
	}
	state.Pods, again = r.podsOfPod2(key)
	state.Refused = r.refused.of(key, state.Pods)
	return state, soonest(again, againClaims), nil
}

// podsOfPod2 are the pods that are replicas of a Pod2, claim to be, or have the
// name of one, in name order.
func (r *Reconciler) podsOfPod2(key Key) ([]*corev1.Pod, time.Duration) {
	listedAt := r.podIndex.LastStoreSyncResourceVersion()
	pods := indexed[*corev1.Pod](r.podIndex, byPod2, path(key.Namespace, key.Name))
	return r.found.addTo(pods, listedAt, key.Namespace, func(pod *corev1.Pod) bool {
		_, replica := ordinals.Parse(key.Name, pod.Name)
		return replica
	})
}

// applyPod2 writes the plan in the order of its fields. What failed on the way keeps
// nothing from being done that does not depend on it, and the status tells what was
// observed whatever failed.
func (r *Reconciler) applyPod2(ctx context.Context, key Key, state pod2.State, plan pod2.Plan) error {
	steps, current := r.steps(key), state.Pod2
	if plan.NeedsOwner() && !steps.do(pod2.ReasonFailedCreate, func() error { return r.confirmPod2(ctx, key, current) }) {
		plan = plan.WithoutOwner()
	}
	unrecorded := plan.Backoff != nil && !steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		patched, err := r.patchBackoff(ctx, key, current, plan.Backoff.Value)
		if err == nil {
			current = patched
		}
		return err
	})
	if unrecorded {
		plan = plan.WithoutBackoff()
	}
	done := r.writePods(ctx, steps, state, &plan, unrecorded)
	if status := reported(state, plan, steps); status != nil && !steps.ended {
		if steps.do("", func() error { return r.updatePod2Status(ctx, key, current, *status) }) {
			done.Status = status
		}
	}
	r.record(state.Pod2, pod2.Events(state, done))
	return steps.err()
}

// reported is the status to be written: the plan's, or the one that tells of failures.
func reported(state pod2.State, plan pod2.Plan, steps *steps) *v1.Pod2Status {
	if len(steps.told) == 0 {
		return plan.Status
	}
	return pod2.WithFailures(state, steps.told)
}

func (r *Reconciler) updatePod2Status(ctx context.Context, key Key, current *v1.Pod2, status v1.Pod2Status) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := rewriteStatus(ctx, r.clients.Sample.SamplecrdV1().Pod2s(key.Namespace), current, next)
	if err != nil {
		return fmt.Errorf("update the status of %s: %w", key, stale(err))
	}
	r.written.wrote(key, pod2sResource, updated.ResourceVersion)
	r.counts.begin(key)
	return nil
}

// writePods carries out what the plan has for pods, claims and revisions, and returns as
// much of the plan as was done. Failures of pods that are unrecorded stay so in a plan
// that is decided anew.
func (r *Reconciler) writePods(ctx context.Context, steps *steps, state pod2.State, plan *pod2.Plan, unrecorded bool) (done pod2.Plan) {
	key := steps.key
	if plan.CreateRevision != nil && !steps.do(pod2.ReasonFailedCreate, func() error { return r.createRevision(ctx, key, state.Pod2, plan.CreateRevision) }) {
		*plan = plan.WithoutRevision()
	}
	steps.do(pod2.ReasonFailedUpdate, func() error { return r.changeRevisions(ctx, key, state.Revisions, plan.ChangeRevisions) })
	if len(plan.Adopt) > 0 {
		var failed error
		adopted := steps.do(pod2.ReasonFailedAdopt, func() error {
			done.Adopt, failed = forEach(ctx, plan.Adopt, func(ctx context.Context, a pod2.Adoption) error { return r.adoptPod(ctx, key, a) })
			return failed
		})
		if adopted || steps.ended || len(done.Adopt) > 0 {
			return done
		}
		*plan = withoutAdoption(state, *plan, isNoRefusal(failed), unrecorded)
	}
	r.changePods(ctx, steps, *plan, &done)
	r.replacePods(ctx, steps, *plan, &done)
	return done
}

// withoutAdoption decides anew, of the same view, in which nothing has changed: while
// pods were to be adopted nothing else was decided.
func withoutAdoption(state pod2.State, plan pod2.Plan, mayBeOurs, unrecorded bool) pod2.Plan {
	state.Unadoptable = map[types.UID]pod2.Unadoptable{}
	for _, a := range plan.Adopt {
		state.Unadoptable[a.UID] = pod2.Unadoptable{MayBeOurs: mayBeOurs}
	}
	again := pod2.Diff(state)
	again.DeleteRevisions = nil // one may be what makes such a pod ours
	if unrecorded {
		again = again.WithoutBackoff()
	}
	if plan.CreateRevision == nil {
		again = again.WithoutRevision()
	}
	return again
}

// changePods changes pods that run. What failed of it takes from no bound that the
// rest was decided with.
func (r *Reconciler) changePods(ctx context.Context, steps *steps, plan pod2.Plan, done *pod2.Plan) {
	key := steps.key
	steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		done.Resize, err = forEach(ctx, plan.Resize, func(ctx context.Context, u pod2.Resize) error { return r.resizePod(ctx, key, u) })
		asked := len(done.Resize)
		if done.Resize = r.refused.without(key, done.Resize); err == nil && len(done.Resize) < asked {
			return fmt.Errorf("resize pods for %s: %d cannot be resized and are to be recreated: %w", key, asked-len(done.Resize), ErrStale)
		}
		return err
	})
	steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		done.InPlace, err = forEach(ctx, plan.InPlace, func(ctx context.Context, u pod2.InPlaceUpdate) error { return r.updatePod(ctx, key, u) })
		return err
	})
}

// replacePods, claims, revisions and labels.
func (r *Reconciler) replacePods(ctx context.Context, steps *steps, plan pod2.Plan, done *pod2.Plan) {
	key := steps.key
	steps.do(pod2.ReasonFailedDelete, func() (err error) {
		// Pods that are just starting change all the time.
		done.Delete, err = forEachChanged(ctx, plan.Delete, func(ctx context.Context, d pod2.PodDeletion) error { return r.deletePod(ctx, key, d) })
		return err
	})
	marked := steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		done.ChangeClaims, err = r.changeClaims(ctx, key, plan.ChangeClaims)
		return err
	})
	if marked {
		steps.do(pod2.ReasonFailedDelete, func() (err error) {
			done.DeleteClaims, err = r.deleteClaims(ctx, key, plan.DeleteClaims)
			return err
		})
	}
	steps.do(pod2.ReasonFailedCreate, func() (err error) {
		done.Create, err = r.createPods(ctx, key, plan.Create)
		return err
	})
	steps.do(pod2.ReasonFailedCreate, func() (err error) {
		done.CreateClaims, err = r.createClaims(ctx, key, plan.CreateClaims)
		return err
	})
	steps.do(pod2.ReasonFailedDelete, func() (err error) {
		done.DeleteRevisions, err = forEach(ctx, plan.DeleteRevisions, r.deletingRevision(key))
		return err
	})
	steps.do(pod2.ReasonFailedResize, func() (err error) {
		done.GrowClaims, err = r.changeClaims(ctx, key, plan.GrowClaims)
		return err
	})
	steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		done.Relabel, err = forEachChanged(ctx, plan.Relabel, func(ctx context.Context, l pod2.Relabelling) error { return r.labelPod(ctx, key, l) })
		return err
	})
}

// patchBackoff writes the annotation that remembers failures; "" removes it.
func (r *Reconciler) patchBackoff(ctx context.Context, key Key, current *v1.Pod2, value string) (*v1.Pod2, error) {
	annotation := any(value)
	if value == "" {
		annotation = nil
	}
	patched, err := overwrite(ctx, r.clients.Sample.SamplecrdV1().Pod2s(key.Namespace), current,
		fields{"annotations": fields{v1.BackoffAnnotation: annotation}}, nil)
	if err != nil {
		return nil, fmt.Errorf("record the failures of pods of %s: %w", key, stale(err))
	}
	r.written.wrote(key, pod2sResource, patched.ResourceVersion)
	klog.FromContext(ctx).Info("Recorded failures of pods", "backoff", value)
	return patched, nil
}

// deletePod deletes a pod that is as it was seen, or is gone. One that changed is
// remembered as it is now, in case it lost the label by which our watch sees it.
func (r *Reconciler) deletePod(ctx context.Context, key Key, d pod2.PodDeletion) error {
	pods := r.clients.Kube.CoreV1().Pods(key.Namespace)
	err := pods.Delete(ctx, d.Name, asSeen(d.Deletion))
	if apierrors.IsConflict(err) {
		if live, getErr := pods.Get(ctx, d.Name, metav1.GetOptions{}); getErr == nil {
			r.found.remember(live)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s (%s): %w", key.Namespace, d.Name, d.Reason, stale(err))
	}
	r.found.forget(key.Namespace, d.Name, d.UID)
	r.written.deleted(key, podsResource, path(key.Namespace, d.Name), d.UID)
	klog.FromContext(ctx).Info("Deleted pod", "pod", d.Name, "reason", d.Reason)
	return nil
}
