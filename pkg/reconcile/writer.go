package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/plan"
)

// writer writes the objects of one kind for the syncs of keys. It remembers each answer,
// because no decision may use a view older than the controller's own write. fenced.Writer
// defines the possible writes.
type writer[T fenced.Object] struct {
	api       fenced.Writer[T]
	noun      string // of an object, for people
	resource  resource
	ownWrites *ownWrites
	unwatched *unwatched[T] // nil: our watch shows every object of the kind
}

// create creates an object with a fixed name. If the name is taken, the decision is
// stale. The holder is remembered, because our watch may not show it.
func (w writer[T]) create(ctx context.Context, key Key, obj T, why string) (T, error) {
	created, err := w.api.Create(ctx, obj)
	if err != nil {
		taken := apierrors.IsAlreadyExists(err)
		err = w.failed("create", obj.GetNamespace(), obj.GetName(), why, err)
		if taken && w.unwatched != nil {
			err = errors.Join(err, w.look(ctx, obj.GetNamespace(), obj.GetName()))
		}
		return created, err
	}
	w.wrote(key, created)
	klog.FromContext(ctx).Info("Created "+w.noun, "name", created.GetName(), "reason", why)
	return created, nil
}

// dryRun returns the object that create would store.
func (w writer[T]) dryRun(ctx context.Context, obj T) (T, error) {
	answer, err := w.api.DryRun(ctx, obj)
	if err != nil {
		return answer, w.failed("create", obj.GetNamespace(), obj.GetName(), "dry run", err)
	}
	return answer, nil
}

// update changes the observed object into the wanted one.
func (w writer[T]) update(ctx context.Context, key Key, seen, wanted T, why string) (T, error) {
	updated, err := w.api.Update(ctx, seen, wanted)
	if err != nil {
		w.missed(seen.GetNamespace(), fenced.AsSeen(seen), err)
		return updated, w.failed("update", seen.GetNamespace(), seen.GetName(), why, err)
	}
	w.wrote(key, updated)
	klog.FromContext(ctx).Info("Updated "+w.noun, "name", updated.GetName(), "reason", why)
	return updated, nil
}

// updateStatus writes the status of wanted. Only one kind of key writes each status.
func (w writer[T]) updateStatus(ctx context.Context, key Key, seen, wanted T) (T, error) {
	updated, err := w.api.UpdateStatus(ctx, seen, wanted)
	if err != nil {
		return updated, fmt.Errorf("update the status of %s: %w", key, err)
	}
	w.wrote(key, updated)
	return updated, nil
}

// patch writes the named fields and no others.
func (w writer[T]) patch(ctx context.Context, key Key, fence fenced.Fence, why string, metadata, rest fenced.Fields, subresources ...string) (T, error) {
	patched, err := w.api.Patch(ctx, key.Namespace, fence, metadata, rest, subresources...)
	return patched, w.patched(ctx, key, fence, why, patched, err)
}

// change applies operations that were derived from the version of the fence.
func (w writer[T]) change(ctx context.Context, key Key, fence fenced.Fence, why string, operations ...fenced.Operation) error {
	changed, err := w.api.Change(ctx, key.Namespace, fence, operations...)
	return w.patched(ctx, key, fence, why, changed, err)
}

func (w writer[T]) patched(ctx context.Context, key Key, fence fenced.Fence, why string, answer T, err error) error {
	if err != nil {
		w.missed(key.Namespace, fence, err)
		return w.failed("patch", key.Namespace, fence.Name(), why, err)
	}
	w.wrote(key, answer)
	klog.FromContext(ctx).Info("Patched "+w.noun, "name", fence.Name(), "reason", why)
	return nil
}

// delete deletes an object that is unchanged since it was read, or is already gone.
func (w writer[T]) delete(ctx context.Context, key Key, d plan.Deletion) error {
	return w.deleteBy(ctx, key, d, nil)
}

func (w writer[T]) deleteBy(ctx context.Context, key Key, d plan.Deletion, propagation *metav1.DeletionPropagation) error {
	fence := fenced.Version(d.Name, d.UID, d.ResourceVersion)
	if err := w.api.Delete(ctx, key.Namespace, fence, propagation); err != nil {
		w.missed(key.Namespace, fence, err)
		return w.failed("delete", key.Namespace, d.Name, d.Reason, err)
	}
	if w.unwatched != nil {
		w.unwatched.forget(key.Namespace, d.Name, d.UID)
	}
	w.ownWrites.deleted(key, w.resource, path(key.Namespace, d.Name), d.UID)
	klog.FromContext(ctx).Info("Deleted "+w.noun, "name", d.Name, "reason", d.Reason)
	return nil
}

// wrote records the answer to a write. If our watch does not show the object, the answer is
// remembered.
func (w writer[T]) wrote(key Key, obj T) {
	if w.unwatched == nil || w.unwatched.watched(key, obj) {
		if w.unwatched != nil {
			w.unwatched.forget(obj.GetNamespace(), obj.GetName(), obj.GetUID()) // from now on the cache shows the object, and its deletion
		}
		w.ownWrites.wrote(key, w.resource, obj.GetResourceVersion())
		return
	}
	w.unwatched.remember(obj)
	w.ownWrites.hidden(key, w.resource, obj)
}

// missed forgets a sighting if the write met another version of the object.
func (w writer[T]) missed(namespace string, fence fenced.Fence, err error) {
	if w.unwatched != nil && errors.Is(err, ErrStale) {
		w.unwatched.forget(namespace, fence.Name(), fence.UID())
	}
}

// look remembers the current version of an object.
func (w writer[T]) look(ctx context.Context, namespace, name string) error {
	live, err := w.api.Get(ctx, namespace, name)
	if err == nil {
		w.unwatched.remember(live)
	}
	return err
}

// failed adds the verb, the object and the reason to an error.
func (w writer[T]) failed(verb, namespace, name, why string, err error) error {
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Errorf("%s %s %s%s: %w", verb, w.noun, path(namespace, name), why, err)
}
