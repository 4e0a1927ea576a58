package reconcile

import (
	"context"
	"encoding/json"
	"errors"
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
	slices.SortFunc(state.Networks, func(a, b *v1.Network) int { return compareNames(a, b) })
	state.Revisions = indexed[*appsv1.ControllerRevision](r.informers.Revisions.Informer().GetIndexer(), byPod2, path(key.Namespace, key.Name))
	slices.SortFunc(state.Revisions, func(a, b *appsv1.ControllerRevision) int { return compareNames(a, b) })
	againClaims, err := r.observeClaims(key, &state)
	if err != nil {
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

// applyPod2 writes the plan in the order of its fields. What stopped it on the
// way, if it is for the user to mend, is what the status says.
func (r *Reconciler) applyPod2(ctx context.Context, key Key, state pod2.State, plan pod2.Plan) error {
	current := state.Pod2
	if plan.NeedsOwner() {
		if err := r.confirmPod2(ctx, key, current); err != nil {
			return err
		}
	}
	if plan.Backoff != nil {
		patched, err := r.patchBackoff(ctx, key, current, plan.Backoff.Value)
		if err != nil {
			return err
		}
		current = patched
	}
	done, reason, failure := pod2.Plan{}, pod2.ReasonFailedCreate, r.writeRevisions(ctx, key, current, plan)
	if failure == nil {
		done, reason, failure = r.writePods(ctx, key, state, plan)
	}
	status := plan.Status
	if failure != nil {
		status = nil
		if message, mendable := forUser(failure); mendable {
			status = pod2.WithFailure(state, pod2.Failure{Reason: reason, Message: message})
		}
	}
	if status != nil {
		if err := r.updatePod2Status(ctx, key, current, *status); err != nil {
			failure = errors.Join(failure, err)
		} else {
			done.Status = status
		}
	}
	for _, e := range pod2.Events(state, done) {
		r.recorder.Event(state.Pod2, e.Type, e.Reason, e.Message)
	}
	return failure
}

func (r *Reconciler) updatePod2Status(ctx context.Context, key Key, current *v1.Pod2, status v1.Pod2Status) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := r.clients.Sample.SamplecrdV1().Pod2s(key.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update the status of %s: %w", key, stale(err))
	}
	r.written.wrote(key, pod2sResource, updated.ResourceVersion)
	r.counts.begin(key)
	return nil
}

// writePods carries out what the plan has for pods, claims and revisions, and returns as
// much of the plan as was done; the reason is that of the condition, should it fail.
// What a user has to mend of pods that run holds up nothing that comes or goes: what
// was not done of them takes from no bound that was reckoned with it.
func (r *Reconciler) writePods(ctx context.Context, key Key, state pod2.State, plan pod2.Plan) (done pod2.Plan, reason string, err error) {
	done, reason, failure := r.changePods(ctx, key, plan)
	if _, mendable := forUser(failure); failure != nil && (!mendable || len(done.Adopt) > 0) {
		return done, reason, failure
	}
	if failure != nil && len(plan.Adopt) > 0 {
		// While pods were to be adopted nothing else was decided. Now that is done
		// without them, of the same view, in which nothing has changed.
		state.Unadoptable = map[types.UID]bool{}
		for _, a := range plan.Adopt {
			state.Unadoptable[a.UID] = true
		}
		plan = pod2.Diff(state)
		plan.DeleteRevisions = nil // one may be what makes such a pod ours
		done, _, err = r.changePods(ctx, key, plan)
		failure = errors.Join(failure, err)
		if _, mendable := forUser(err); err != nil && !mendable {
			return done, reason, failure
		}
	}
	done, why, err := r.replacePods(ctx, key, state, plan, done)
	if failure != nil {
		return done, reason, errors.Join(failure, err)
	}
	return done, why, err
}

// changePods goes on after an error that is for the user to mend, and returns the
// first reason.
func (r *Reconciler) changePods(ctx context.Context, key Key, plan pod2.Plan) (done pod2.Plan, reason string, failure error) {
	var err error
	done.Adopt, err = forEach(ctx, plan.Adopt, func(ctx context.Context, a pod2.Adoption) error { return r.adoptPod(ctx, key, a) })
	if err != nil {
		return done, pod2.ReasonFailedAdopt, err // then there is nothing else
	}
	done.Resize, failure = forEach(ctx, plan.Resize, func(ctx context.Context, u pod2.Resize) error { return r.resizePod(ctx, key, u) })
	if _, mendable := forUser(failure); failure != nil && !mendable {
		return done, pod2.ReasonFailedUpdate, failure
	}
	asked := len(done.Resize)
	if done.Resize = r.refused.without(key, done.Resize); len(done.Resize) < asked {
		return done, pod2.ReasonFailedUpdate, fmt.Errorf("resize pods for %s: %d cannot be resized and are to be recreated: %w", key, asked-len(done.Resize), ErrStale)
	}
	done.InPlace, err = forEach(ctx, plan.InPlace, func(ctx context.Context, u pod2.InPlaceUpdate) error { return r.updatePod(ctx, key, u) })
	return done, pod2.ReasonFailedUpdate, errors.Join(failure, err)
}

// replacePods, claims and revisions, and stops at the first error.
func (r *Reconciler) replacePods(ctx context.Context, key Key, state pod2.State, plan, done pod2.Plan) (_ pod2.Plan, reason string, err error) {
	// Pods that are just starting change all the time.
	done.Delete, err = forEachChanged(ctx, plan.Delete, func(ctx context.Context, d pod2.Deletion) error { return r.deletePod(ctx, key, d) })
	if err != nil {
		return done, pod2.ReasonFailedDelete, err
	}
	if done.ChangeClaims, err = r.changeClaims(ctx, key, plan.ChangeClaims); err != nil {
		return done, pod2.ReasonFailedUpdate, err
	}
	if done.DeleteClaims, err = r.deleteClaims(ctx, key, plan.DeleteClaims); err != nil {
		return done, pod2.ReasonFailedDelete, err
	}
	if done.Create, err = r.createPods(ctx, key, state, plan.Create); err != nil {
		return done, pod2.ReasonFailedCreate, err
	}
	if done.CreateClaims, err = r.createClaims(ctx, key, plan.CreateClaims); err != nil {
		return done, pod2.ReasonFailedCreate, err
	}
	done.DeleteRevisions, err = forEach(ctx, plan.DeleteRevisions, func(ctx context.Context, d pod2.Deletion) error { return r.deleteRevision(ctx, key, d) })
	if err != nil {
		return done, pod2.ReasonFailedDelete, err
	}
	if done.GrowClaims, err = r.changeClaims(ctx, key, plan.GrowClaims); err != nil {
		return done, pod2.ReasonFailedResize, err
	}
	return done, "", nil
}

// patchBackoff writes the annotation that remembers failures; "" removes it.
func (r *Reconciler) patchBackoff(ctx context.Context, key Key, current *v1.Pod2, value string) (*v1.Pod2, error) {
	annotation := any(value)
	if value == "" {
		annotation = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": current.UID, "resourceVersion": current.ResourceVersion,
		"annotations": map[string]any{v1.BackoffAnnotation: annotation},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode the backoff of %s: %w", key, err)
	}
	patched, err := r.clients.Sample.SamplecrdV1().Pod2s(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("record the failures of pods of %s: %w", key, stale(err))
	}
	r.written.wrote(key, pod2sResource, patched.ResourceVersion)
	klog.FromContext(ctx).Info("Recorded failures of pods", "backoff", value)
	return patched, nil
}

// deletePod deletes a pod that is as it was seen, or is gone. One that changed is
// remembered as it is now, in case it lost the label by which our watch sees it.
func (r *Reconciler) deletePod(ctx context.Context, key Key, d pod2.Deletion) error {
	pods := r.clients.Kube.CoreV1().Pods(key.Namespace)
	err := pods.Delete(ctx, d.Name, asSeen(d))
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

// createPods creates in batches of 1, 2, 4, ...: what refuses one pod (a quota,
// an invalid template) mostly refuses them all, and should do so once.
func (r *Reconciler) createPods(ctx context.Context, key Key, state pod2.State, creations []pod2.Creation) (done []pod2.Creation, err error) {
	for size := 1; len(creations) > 0; size *= 2 {
		batch := creations[:min(size, len(creations))]
		creations = creations[len(batch):]
		created, err := forEach(ctx, batch, func(ctx context.Context, c pod2.Creation) error {
			if _, err := r.createClaims(ctx, key, c.Claims); err != nil {
				return err
			}
			return r.createPod(ctx, key, state.Pod2, c)
		})
		done = append(done, created...)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// createPod creates a replica under its fixed name. If that is taken by a pod
// that our watch does not show, the pod is remembered and the decision is stale.
func (r *Reconciler) createPod(ctx context.Context, key Key, owner *v1.Pod2, c pod2.Creation) error {
	pods := r.clients.Kube.CoreV1().Pods(key.Namespace)
	created, err := pods.Create(ctx, c.Pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		live, getErr := pods.Get(ctx, c.Pod.Name, metav1.GetOptions{})
		if getErr == nil {
			r.found.remember(live)
		}
		return errors.Join(fmt.Errorf("create pod %s/%s for %s: %w", key.Namespace, c.Pod.Name, owner.Name, stale(err)), getErr)
	}
	if err != nil {
		return fmt.Errorf("create pod %s/%s (%s): %w", key.Namespace, c.Pod.Name, c.Reason, err)
	}
	r.written.wrote(key, podsResource, created.ResourceVersion)
	klog.FromContext(ctx).Info("Created pod", "pod", c.Pod.Name, "reason", c.Reason)
	return nil
}

func compareNames(a, b metav1.Object) int {
	switch {
	case a.GetName() < b.GetName():
		return -1
	case a.GetName() > b.GetName():
		return 1
	}
	return 0
}
