package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// pod2Kind syncs Pod2s.
type pod2Kind struct {
	*shared
	names          *findings[pod2.Names]
	refusedResizes *refusedResizes
	facts          *podFacts[pod2.Facts]
	steady         *steady
	counts         *throttle
}

func newPod2Kind(s *shared, names *findings[pod2.Names]) *pod2Kind {
	return &pod2Kind{s, names, newRefusedResizes(), newPodFacts[pod2.Facts](), newSteady(), newThrottle(s.clock, countsEvery)}
}

func (r *pod2Kind) observe(key Key) (state pod2.State, again time.Duration, err error) {
	cached := r.pod2s.get(key.Namespace, key.Name)
	if cached == nil || cached.DeletionTimestamp != nil {
		r.refusedResizes.of(key, nil)
		r.facts.of(key, nil)
		r.steady.keep(key, rememberedPods{})
		r.podEvents.forget(key)
		if cached == nil {
			r.names.forget(key.path())
			return state, 0, errNothing
		}
		return pod2.State{Pod2: cached}, 0, nil // the decision needs no pods, and an event of each comes
	}
	state = pod2.State{ // without its monotonic reading, Now shows a clock that was set back
		Now: r.clock.Now().Round(0), Pod2: pod2.Defaulted(cached), Revisions: r.revisions.sorted(byPod2, key.path()), Holders: r.holders(cached),
		Names: r.names.of(cached, namesTold(cached)), NumbersHeld: r.counts.left(key),
	}
	for _, name := range pod2.Networks(cached) {
		if n := r.networks.get(key.Namespace, name); n != nil {
			state.Networks = append(state.Networks, n)
		}
	}
	slices.SortFunc(state.Networks, plan.ByName)
	again = r.observePods(key, &state)
	state.StorageClasses = r.classesOf(state.Claims)
	state.Facts = r.facts.of(key, state.Pods)
	state.Refused = r.refusedResizes.of(key, state.Pods)
	state.Sidecars = r.sidecarUpdates(key.Namespace, state.Pods)
	return state, again, nil
}

// podsOfPod2 returns the replicas of a Pod2 and the pods with the label or name of one,
// in name order.
func (s *shared) podsOfPod2(key Key) ([]*corev1.Pod, time.Duration) {
	listedAt := s.pods.at()
	return s.writePods.unwatched.addTo(key, s.pods.by(byPod2, key.path()), listedAt, func(pod *corev1.Pod) bool {
		_, replica := ordinals.Parse(key.Name, pod.Name)
		return replica
	})
}

// holders returns the holders of the addresses that a Pod2 asks for.
func (r *pod2Kind) holders(p *v1.Pod2) []pod2.Holder {
	holders := pod2.Holders(p, func(name string) *v1.AddressBlock { return r.blocks.get(p.Namespace, name) })
	owners := map[v1.AddressOwner]network.Replicas{}
	for i, h := range holders {
		r.addOwner(owners, p.Namespace, h.Owner)
		if replicas, ok := owners[h.Owner]; ok {
			holders[i].ScaledAway = replicas.ScaledAway(h.Network, h.AddressEntry)
		}
	}
	return holders
}

// apply writes the plan in the order of its fields. After a failure it continues with the
// writes that do not depend on it. The status always reports the observed state.
func (r *pod2Kind) apply(ctx context.Context, key Key, state pod2.State, plan pod2.Plan) (Result, error) {
	if known := r.steady.get(key); state.Steady != nil && !known.compare && plan.MayTakeAway() {
		known.compare = true
		r.steady.keep(key, known)
		return Result{}, errLookAgain
	}
	r.steady.keep(key, rememberedPods{replicas: plan.Steady(), others: plan.Others(), claims: plan.OtherClaims()})
	steps, current := r.steps(key), state.Pod2
	var missing pod2.Missing
	missing.Owner = plan.NeedsOwner() && !steps.do(pod2.ReasonFailedCreate, func() error { return r.live.confirmPod2(ctx, key, current) })
	missing.Backoff = plan.Backoff != nil && !steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		patched, err := r.recordFailures(ctx, key, current, plan.Backoff.Value)
		if err == nil {
			current = patched
		}
		return err
	})
	left := plan.Without(missing)
	missing.Revision = left.CreateRevision != nil && !steps.do(pod2.ReasonFailedCreate, func() error { return r.createRevision(ctx, key, current, left.CreateRevision) })
	left = left.Without(missing)
	steps.do(pod2.ReasonFailedUpdate, func() error { return r.changeRevisions(ctx, key, state.Revisions, left.ChangeRevisions) })
	var done pod2.Plan
	if len(left.Adopt) > 0 {
		var failed error
		adopted := steps.do(pod2.ReasonFailedAdopt, func() error {
			done.Adopt, failed = forEach(ctx, left.Adopt, func(ctx context.Context, a pod2.Adoption) error { return r.adopt(ctx, key, a) })
			return failed
		})
		if !adopted && !steps.ended && len(done.Adopt) == 0 {
			left = left.WithoutAdoption(isNoRefusal(failed)).Without(missing)
		}
	}
	if len(done.Adopt) == 0 {
		r.changePods(ctx, steps, left, &done)
		r.replacePods(ctx, steps, left, &done)
	}
	status := left.Status
	if len(steps.told) > 0 {
		status = pod2.WithFailures(state, steps.told)
	}
	if status != nil && !steps.ended && steps.do("", func() error { return r.updateStatus(ctx, key, state.Names, current, *status) }) {
		done.Status = status
	}
	r.record(state.Pod2, pod2.Events(state, done))
	return Result{RequeueAfter: left.RequeueAfter}, steps.err()
}

func (r *pod2Kind) updateStatus(ctx context.Context, key Key, told *pod2.Names, current *v1.Pod2, status v1.Pod2Status) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := r.writePod2s.updateStatus(ctx, key, current, next)
	if err == nil {
		r.names.wrote(updated, told)
		r.counts.beginFor(key, countsOf(int(max(current.Status.Replicas, status.Replicas))))
	}
	return err
}

// recordFailures writes the annotation that remembers failures; "" removes it.
func (r *pod2Kind) recordFailures(ctx context.Context, key Key, current *v1.Pod2, value string) (*v1.Pod2, error) {
	annotation := any(value)
	if value == "" {
		annotation = nil
	}
	return r.writePod2s.patch(ctx, key, fenced.AsSeen(current), "failures of pods: "+value,
		fenced.Fields{"annotations": fenced.Fields{v1.BackoffAnnotation: annotation}}, nil)
}

// changePods changes running pods. A failed change uses up no budget of the rest of the
// plan.
func (r *pod2Kind) changePods(ctx context.Context, steps *steps, plan pod2.Plan, done *pod2.Plan) {
	key := steps.key
	steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		done.Resize, err = forEach(ctx, plan.Resize, func(ctx context.Context, u pod2.Resize) error { return r.resize(ctx, key, u) })
		asked := len(done.Resize)
		if done.Resize = r.refusedResizes.without(key, done.Resize); err == nil && len(done.Resize) < asked {
			return fmt.Errorf("resize pods for %s: %d cannot be resized and will be recreated: %w", key, asked-len(done.Resize), ErrStale)
		}
		return err
	})
	steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		done.InPlace, err = forEach(ctx, plan.InPlace, func(ctx context.Context, u pod2.InPlaceUpdate) error { return r.updateInPlace(ctx, key, u) })
		return err
	})
}

// replacePods deletes and creates pods, PVCs and revisions, and changes labels.
func (r *pod2Kind) replacePods(ctx context.Context, steps *steps, plan pod2.Plan, done *pod2.Plan) {
	key := steps.key
	steps.do(pod2.ReasonFailedDelete, func() (err error) {
		// Pods that are starting change all the time.
		done.Delete, err = forEachChanged(ctx, plan.Delete, func(ctx context.Context, d pod2.PodDeletion) error { return r.delete(ctx, key, d) })
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
		done.DeleteRevisions, err = forEach(ctx, plan.DeleteRevisions, deleting(key, r.writeRevisions))
		return err
	})
	steps.do(pod2.ReasonFailedResize, func() (err error) {
		done.GrowClaims, err = r.changeClaims(ctx, key, plan.GrowClaims)
		return err
	})
	steps.do(pod2.ReasonFailedUpdate, func() (err error) {
		done.Relabel, err = forEachChanged(ctx, plan.Relabel, func(ctx context.Context, l pod2.Relabelling) error { return r.relabel(ctx, key, l) })
		return err
	})
}

// createRevision stores the template before pods are created from it. If another object
// has the name, the collision is counted, so the next sync tries another name.
func (r *pod2Kind) createRevision(ctx context.Context, key Key, current *v1.Pod2, revision *appsv1.ControllerRevision) error {
	_, exists := r.writeRevisions.create(ctx, key, revision, fmt.Sprintf("number %d", revision.Revision))
	if !apierrors.IsAlreadyExists(exists) {
		return exists
	}
	holder, err := r.live.revisions(key.Namespace).Get(ctx, revision.Name, metav1.GetOptions{})
	if err != nil {
		return exists
	}
	status := pod2.WithCollision(current, holder)
	if status == nil {
		return exists // the cache does not show it yet
	}
	return errors.Join(exists, r.updateStatus(ctx, key, nil, current, *status))
}

func (r *pod2Kind) changeRevisions(ctx context.Context, key Key, seen, wanted []*appsv1.ControllerRevision) error {
	for _, revision := range wanted {
		was := seen[slices.IndexFunc(seen, func(s *appsv1.ControllerRevision) bool { return s.Name == revision.Name })]
		if _, err := r.writeRevisions.update(ctx, key, was, revision, fmt.Sprintf("number %d", revision.Revision)); err != nil {
			return err
		}
	}
	return nil
}
