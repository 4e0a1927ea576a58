package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

func labelledPod2(obj any) ([]string, error) {
	object, ok := obj.(metav1.Object)
	if !ok || object.GetLabels()[v1.Pod2Label] == "" {
		return nil, nil
	}
	return []string{path(object.GetNamespace(), object.GetLabels()[v1.Pod2Label])}, nil
}

// A revision concerns the Pod2 whose label it carries.
func revisionKeys(obj any) []Key {
	if _, ok := obj.(*appsv1.ControllerRevision); !ok {
		return nil
	}
	names, _ := labelledPod2(obj)
	return keysOf(KindPod2, names)
}

// createRevision puts on record what pods are made from, before they are.
func (r *Reconciler) createRevision(ctx context.Context, key Key, current *v1.Pod2, revision *appsv1.ControllerRevision) error {
	created, err := r.clients.Kube.AppsV1().ControllerRevisions(key.Namespace).Create(ctx, revision, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return r.collided(ctx, key, current, revision, err)
	}
	if err != nil {
		return fmt.Errorf("create ControllerRevision %s/%s: %w", key.Namespace, revision.Name, err)
	}
	r.written.wrote(key, revisionsResource, created.ResourceVersion)
	klog.FromContext(ctx).Info("Created revision", "revision", created.Name, "number", created.Revision)
	return nil
}

func (r *Reconciler) changeRevisions(ctx context.Context, key Key, seen, wanted []*appsv1.ControllerRevision) error {
	for _, revision := range wanted {
		was := seen[slices.IndexFunc(seen, func(s *appsv1.ControllerRevision) bool { return s.Name == revision.Name })]
		changed, err := rewrite(ctx, r.clients.Kube.AppsV1().ControllerRevisions(key.Namespace), was, revision)
		if err != nil {
			return fmt.Errorf("update ControllerRevision %s/%s: %w", key.Namespace, revision.Name, stale(err))
		}
		r.written.wrote(key, revisionsResource, changed.ResourceVersion)
		klog.FromContext(ctx).Info("Updated revision", "revision", changed.Name, "number", changed.Revision)
	}
	return nil
}

// collided counts that the name of a revision is taken by an object that our watch
// does not show, for want of the label: another name is tried next.
func (r *Reconciler) collided(ctx context.Context, key Key, current *v1.Pod2, revision *appsv1.ControllerRevision, exists error) error {
	exists = fmt.Errorf("create ControllerRevision %s/%s: %w", key.Namespace, revision.Name, stale(exists))
	live, err := r.clients.Kube.AppsV1().ControllerRevisions(key.Namespace).Get(ctx, revision.Name, metav1.GetOptions{})
	if err != nil || live.Labels[v1.Pod2Label] == current.Name {
		return exists // the cache is yet to show it
	}
	status := *current.Status.DeepCopy()
	status.CollisionCount = ptr.To(ptr.Deref(status.CollisionCount, 0) + 1)
	return errors.Join(exists, r.updatePod2Status(ctx, key, current, status))
}

// deletingRevision deletes a revision that is as it was seen.
func (r *Reconciler) deletingRevision(key Key) func(context.Context, plan.Deletion) error {
	return func(ctx context.Context, d plan.Deletion) error {
		err := r.clients.Kube.AppsV1().ControllerRevisions(key.Namespace).Delete(ctx, d.Name, asSeen(d))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete ControllerRevision %s/%s (%s): %w", key.Namespace, d.Name, d.Reason, stale(err))
		}
		r.written.deleted(key, revisionsResource, path(key.Namespace, d.Name), d.UID)
		klog.FromContext(ctx).Info("Deleted revision", "revision", d.Name, "reason", d.Reason)
		return nil
	}
}

var revisionIndexers = cache.Indexers{byPod2: labelledPod2}
