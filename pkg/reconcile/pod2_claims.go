package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// claimsOfPod2 returns the PVCs whose names belong to the Pod2, in name order. A PVC without
// a label is known only after a create found its name taken.
func (r *pod2Kind) claimsOfPod2(key Key, p *v1.Pod2) ([]*corev1.PersistentVolumeClaim, time.Duration) {
	if len(p.Spec.VolumeClaimTemplates) == 0 {
		return nil, 0
	}
	listedAt := r.claims.at()
	return r.writeClaims.unwatched.addTo(key, r.claims.by(byPod2, key.path()), listedAt, func(c *corev1.PersistentVolumeClaim) bool {
		_, ours := pod2.ClaimOrdinal(p, c.Name)
		return ours
	})
}

// classesOf returns the StorageClasses that exist of PVCs, in name order.
func (r *pod2Kind) classesOf(claims []*corev1.PersistentVolumeClaim) (classes []*storagev1.StorageClass) {
	named := map[string]bool{}
	for _, claim := range claims {
		named[ptr.Deref(claim.Spec.StorageClassName, "")] = true
	}
	for name := range named {
		if class := r.classes.get("", name); class != nil {
			classes = append(classes, class)
		}
	}
	slices.SortFunc(classes, plan.ByName)
	return classes
}

func (r *pod2Kind) createClaims(ctx context.Context, key Key, claims []*corev1.PersistentVolumeClaim) ([]*corev1.PersistentVolumeClaim, error) {
	return forEach(ctx, claims, func(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
		_, err := r.writeClaims.create(ctx, key, c, "")
		return err
	})
}

// changeClaims writes the fields that the controller manages.
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

// deleteClaims deletes PVCs of ordinals that have no pod. A live read must confirm this:
// a cache alone cannot justify deleting data, because it lacks pods whose label a user
// removed. The resourceVersion ensures that the PVC still belongs to the Pod2.
func (r *pod2Kind) deleteClaims(ctx context.Context, key Key, deletions []pod2.ClaimDeletion) ([]pod2.ClaimDeletion, error) {
	refs := make([]network.PodRef, 0, len(deletions))
	for _, d := range deletions {
		refs = append(refs, network.PodRef{Name: d.Pod})
	}
	var exist []string
	err := r.live.readPods(ctx, key.Namespace, refs, func(ref network.PodRef, pod *corev1.Pod) {
		if pod != nil {
			r.writePods.unwatched.remember(pod)
			exist = append(exist, ref.Name)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("confirm for %s that PersistentVolumeClaims have no pod: %w", key, err)
	}
	if len(exist) > 0 {
		slices.Sort(exist)
		return nil, fmt.Errorf("%s: cannot delete PersistentVolumeClaims in namespace %s: their pods exist, but the cache does not show them: %s: %w", key, key.Namespace, summary(exist), ErrStale)
	}
	return forEach(ctx, deletions, func(ctx context.Context, d pod2.ClaimDeletion) error {
		return r.writeClaims.delete(ctx, key, d.Deletion)
	})
}
