package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

var claimIndexers = cache.Indexers{byPod2: claimPod2s, byClass: claimClass}

func newFoundClaims(clock clock.PassiveClock) *found[*corev1.PersistentVolumeClaim] {
	return newFound(clock, (*corev1.PersistentVolumeClaim).DeepCopy, func(c *corev1.PersistentVolumeClaim) bool { return c.Labels[v1.Pod2Label] != "" })
}

// claimPod2s are the Pod2 of the label and all whose claim could have the name:
// data-a-b-0 is that of a Pod2 b, with the template data-a, as of a Pod2 a-b.
func claimPod2s(obj any) ([]string, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil, nil
	}
	var pod2s []string
	if name := claim.Labels[v1.Pod2Label]; name != "" {
		pod2s = append(pod2s, path(claim.Namespace, name))
	}
	if end := strings.LastIndexByte(claim.Name, '-'); end > 0 {
		for rest := claim.Name[:end]; ; {
			_, name, more := strings.Cut(rest, "-")
			if !more {
				break
			}
			pod2s = append(pod2s, path(claim.Namespace, name))
			rest = name
		}
	}
	slices.Sort(pod2s)
	return slices.Compact(pod2s), nil
}

func claimClass(obj any) ([]string, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil, nil
	}
	return []string{ptr.Deref(claim.Spec.StorageClassName, "")}, nil
}

// A claim concerns the Pod2s that it is, or could be, a claim of.
func claimKeys(obj any) []Key {
	names, _ := claimPod2s(obj)
	return keysOf(KindPod2, names)
}

// A StorageClass concerns the Pod2s of its claims, which may grow or not.
func (r *Reconciler) classKeys(obj any) []Key {
	class, ok := obj.(*storagev1.StorageClass)
	if !ok {
		return nil
	}
	var keys []Key
	for _, claim := range indexed[*corev1.PersistentVolumeClaim](r.informers.Claims.Informer().GetIndexer(), byClass, class.Name) {
		keys = append(keys, Key{KindPod2, claim.Namespace, claim.Labels[v1.Pod2Label]})
	}
	return keys
}

// observeClaims adds the claims that have a name of ours and their classes. One
// without a label is known only once its name was found to be taken.
func (r *Reconciler) observeClaims(key Key, state *pod2.State) (again time.Duration, err error) {
	if len(state.Pod2.Spec.VolumeClaimTemplates) == 0 {
		return 0, nil
	}
	indexer := r.informers.Claims.Informer().GetIndexer()
	listedAt := indexer.LastStoreSyncResourceVersion()
	claims := indexed[*corev1.PersistentVolumeClaim](indexer, byPod2, path(key.Namespace, key.Name))
	state.Claims, again = r.foundClaims.addTo(claims, listedAt, key.Namespace, func(c *corev1.PersistentVolumeClaim) bool {
		_, ours := pod2.ClaimOrdinal(state.Pod2, c.Name)
		return ours
	})
	named := map[string]bool{}
	for _, claim := range state.Claims {
		named[ptr.Deref(claim.Spec.StorageClassName, "")] = true
	}
	for name := range named {
		class, err := absent(r.informers.Classes.Lister().Get(name))
		if err != nil {
			return 0, err
		}
		if class != nil {
			state.StorageClasses = append(state.StorageClasses, class)
		}
	}
	slices.SortFunc(state.StorageClasses, plan.ByName)
	return again, nil
}

func (r *Reconciler) createClaims(ctx context.Context, key Key, claims []*corev1.PersistentVolumeClaim) ([]*corev1.PersistentVolumeClaim, error) {
	return forEach(ctx, claims, func(ctx context.Context, c *corev1.PersistentVolumeClaim) error { return r.createClaim(ctx, key, c) })
}

// createClaim creates a claim under its fixed name. If that is taken by one that
// our watch does not show, it is remembered and the decision is stale.
func (r *Reconciler) createClaim(ctx context.Context, key Key, c *corev1.PersistentVolumeClaim) error {
	claims := r.clients.Kube.CoreV1().PersistentVolumeClaims(key.Namespace)
	created, err := claims.Create(ctx, c, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		live, getErr := claims.Get(ctx, c.Name, metav1.GetOptions{})
		if getErr == nil {
			r.foundClaims.remember(live)
		}
		return errors.Join(fmt.Errorf("create claim %s/%s for %s: %w", key.Namespace, c.Name, key, stale(err)), getErr)
	}
	if err != nil {
		return fmt.Errorf("create claim %s/%s for %s: %w", key.Namespace, c.Name, key, err)
	}
	r.foundClaims.wrote(r.written, key, claimsResource, created)
	klog.FromContext(ctx).Info("Created claim", "claim", c.Name)
	return nil
}

func (r *Reconciler) changeClaims(ctx context.Context, key Key, changes []pod2.ClaimChange) ([]pod2.ClaimChange, error) {
	return forEach(ctx, changes, func(ctx context.Context, c pod2.ClaimChange) error { return r.changeClaim(ctx, key, c) })
}

// changeClaim writes what is ours to write.
func (r *Reconciler) changeClaim(ctx context.Context, key Key, c pod2.ClaimChange) error {
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
	patched, err := overwrite(ctx, r.clients.Kube.CoreV1().PersistentVolumeClaims(key.Namespace), c.Claim,
		fields{"labels": labels, "annotations": fields{v1.SurgeClaimAnnotation: surge}, "ownerReferences": c.Claim.OwnerReferences},
		fields{"spec": fields{"resources": fields{"requests": fields{"storage": c.Claim.Spec.Resources.Requests.Storage()}}}})
	if err != nil {
		return fmt.Errorf("change claim %s/%s (%s): %w", key.Namespace, c.Claim.Name, c.Reason, stale(err))
	}
	r.foundClaims.wrote(r.written, key, claimsResource, patched)
	klog.FromContext(ctx).Info("Changed claim", "claim", c.Claim.Name, "reason", c.Reason)
	return nil
}

// deleteClaims deletes claims of ordinals that have no pod, as a live read says
// too: data does not go on the word of a cache, which a pod whose label somebody
// took is not in. That the claim is still ours, its resourceVersion says.
func (r *Reconciler) deleteClaims(ctx context.Context, key Key, deletions []plan.Deletion) ([]plan.Deletion, error) {
	refs := make([]network.PodRef, 0, len(deletions))
	for _, d := range deletions {
		refs = append(refs, network.PodRef{Name: d.Name[strings.LastIndex(d.Name, key.Name+"-"):]})
	}
	var exist []string
	err := r.readPods(ctx, key.Namespace, refs, func(ref network.PodRef, pod *corev1.Pod) {
		if pod != nil {
			r.found.remember(pod)
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
	return forEach(ctx, deletions, func(ctx context.Context, d plan.Deletion) error { return r.deleteClaim(ctx, key, d) })
}

func (r *Reconciler) deleteClaim(ctx context.Context, key Key, d plan.Deletion) error {
	err := r.clients.Kube.CoreV1().PersistentVolumeClaims(key.Namespace).Delete(ctx, d.Name, asSeen(d))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete claim %s/%s (%s): %w", key.Namespace, d.Name, d.Reason, stale(err))
	}
	r.foundClaims.forget(key.Namespace, d.Name, d.UID)
	r.written.deleted(key, claimsResource, path(key.Namespace, d.Name), d.UID)
	klog.FromContext(ctx).Info("Deleted claim", "claim", d.Name, "reason", d.Reason)
	return nil
}
