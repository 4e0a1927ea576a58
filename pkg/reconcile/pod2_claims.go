package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// observeClaims adds the claims that have a name of ours and their classes. One
// without a label is known only once its name was found to be taken.
func (r *pod2Kind) observeClaims(key Key, state *pod2.State) (again time.Duration) {
	if len(state.Pod2.Spec.VolumeClaimTemplates) == 0 {
		return 0
	}
	listedAt := r.claims.at()
	state.Claims, again = r.writeClaims.unwatched.addTo(key, r.claims.by(byPod2, key.path()), listedAt, func(c *corev1.PersistentVolumeClaim) bool {
		_, ours := pod2.ClaimOrdinal(state.Pod2, c.Name)
		return ours
	})
	named := map[string]bool{}
	for _, claim := range state.Claims {
		named[ptr.Deref(claim.Spec.StorageClassName, "")] = true
	}
	for name := range named {
		if class := r.classes.get("", name); class != nil {
			state.StorageClasses = append(state.StorageClasses, class)
		}
	}
	slices.SortFunc(state.StorageClasses, plan.ByName)
	return again
}

func (r *pod2Kind) createClaims(ctx context.Context, key Key, claims []*corev1.PersistentVolumeClaim) ([]*corev1.PersistentVolumeClaim, error) {
	return forEach(ctx, claims, func(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
		_, err := r.writeClaims.create(ctx, key, c, "")
		return err
	})
}

// changeClaims writes what is ours to write.
func (r *pod2Kind) changeClaims(ctx context.Context, key Key, changes []pod2.ClaimChange) ([]pod2.ClaimChange, error) {
	return forEach(ctx, changes, func(ctx context.Context, c pod2.ClaimChange) error {
		var surge any // null removes it
		if value, marked := c.Claim.Annotations[v1.SurgeClaimAnnotation]; marked {
			surge = value
		}
		labels := map[string]string{}
		for _, label := range []string{v1.Pod2Label, v1.PodIndexLabel} {
			if value, ok := c.Claim.Labels[label]; ok {
				labels[label] = value
			}
		}
		_, err := r.writeClaims.patch(ctx, key, fenced.AsSeen(c.Claim), c.Reason,
			fenced.Fields{"labels": labels, "annotations": fenced.Fields{v1.SurgeClaimAnnotation: surge}, "ownerReferences": c.Claim.OwnerReferences},
			fenced.Fields{"spec": fenced.Fields{"resources": fenced.Fields{"requests": fenced.Fields{"storage": c.Claim.Spec.Resources.Requests.Storage()}}}})
		return err
	})
}

// deleteClaims deletes claims of ordinals that have no pod, as a live read says
// too: data does not go on the word of a cache, which a pod whose label somebody
// took is not in. That the claim is still ours, its resourceVersion says.
func (r *pod2Kind) deleteClaims(ctx context.Context, key Key, deletions []plan.Deletion) ([]plan.Deletion, error) {
	refs := make([]network.PodRef, 0, len(deletions))
	for _, d := range deletions {
		refs = append(refs, network.PodRef{Name: d.Name[strings.LastIndex(d.Name, key.Name+"-"):]})
	}
	var exist []string
	err := r.live.readPods(ctx, key.Namespace, refs, func(ref network.PodRef, pod *corev1.Pod) {
		if pod != nil {
			r.live.unwatched.remember(pod)
			exist = append(exist, ref.Name)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("confirm for %s that claims have no pod: %w", key, err)
	}
	if len(exist) > 0 {
		slices.Sort(exist)
		return nil, fmt.Errorf("%s: pods of namespace %s, whose claims were to be deleted, exist, as the cache does not show: %s: %w", key, key.Namespace, summary(exist), ErrStale)
	}
	return forEach(ctx, deletions, deleting(key, r.writeClaims))
}
