package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/pod2"
)

// inFlight bounds the pods of a sync that are on their way to the API server at once,
// in bytes: each is held as an object, as a request and as an answer.
const inFlight = 4 << 20

// createPods creates in batches of 1, 2, 4, ...: what refuses one pod (a quota, an
// invalid template) mostly refuses them all, and should do so a few times. Pods that
// need a claim are refused apart from those that have theirs. A sync after one that
// failed begins further on, so that the next ones are tried too.
func (r *Reconciler) createPods(ctx context.Context, key Key, creations []pod2.Creation) (done []pod2.Creation, err error) {
	if len(creations) == 0 {
		return nil, nil
	}
	most := min(atOnce, max(1, inFlight/max(1, creations[0].Pod().Size())))
	if n := len(creations); n > mostRefused {
		first := r.outages.syncs(key) * mostRefused % n
		creations = slices.Concat(creations[first:], creations[:first])
	}
	inARow, errs := map[bool]int{}, []error(nil)
	for size := 1; len(creations) > 0; {
		var batch []pod2.Creation
		for len(creations) > 0 && len(batch) < size {
			if next := creations[0]; inARow[next.NeedsClaims] < mostRefused {
				batch = append(batch, next)
			}
			creations = creations[1:]
		}
		created, err := forEachUntil(ctx, most, batch, afterRefusals(), func(ctx context.Context, c pod2.Creation) error { return r.createReplica(ctx, key, c) })
		done = append(done, created...)
		for _, c := range created {
			inARow[c.NeedsClaims] = 0
		}
		if err == nil {
			size *= 2
			continue
		}
		if errs = append(errs, err); isNoRefusal(err) {
			break
		}
		size = 1
		for _, c := range batch {
			if !slices.ContainsFunc(created, func(d pod2.Creation) bool { return d.Name == c.Name }) {
				inARow[c.NeedsClaims]++
			}
		}
	}
	return done, errors.Join(errs...)
}

func isNoRefusal(err error) bool {
	_, refusal := forUser(err)
	return !refusal
}

func (r *Reconciler) createReplica(ctx context.Context, key Key, c pod2.Creation) error {
	if _, err := r.createClaims(ctx, key, c.Claims()); err != nil {
		return err
	}
	return r.createPod(ctx, key, c)
}

// createPod creates a replica under its fixed name. If that is taken by a pod
// that our watch does not show, the pod is remembered and the decision is stale.
func (r *Reconciler) createPod(ctx context.Context, key Key, c pod2.Creation) error {
	pods := r.clients.Kube.CoreV1().Pods(key.Namespace)
	created, err := pods.Create(ctx, c.Pod(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		live, getErr := pods.Get(ctx, c.Name, metav1.GetOptions{})
		if getErr == nil {
			r.found.remember(live)
		}
		return errors.Join(fmt.Errorf("create pod %s/%s for %s: %w", key.Namespace, c.Name, key.Name, stale(err)), getErr)
	}
	if err != nil {
		return fmt.Errorf("create pod %s/%s (%s): %w", key.Namespace, c.Name, c.Reason, err)
	}
	r.found.wrote(r.written, key, podsResource, created)
	klog.FromContext(ctx).Info("Created pod", "pod", c.Name, "reason", c.Reason)
	return nil
}
