package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/plan"
)

// client is what a typed clientset has for one kind of object in a namespace.
type client[T apiObject] interface {
	patcher[T]
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// owned writes the objects of one kind that Pod2s own besides their pods, or Networks
// besides their blocks.
type owned[T apiObject] struct {
	kind     string // for people
	label    string // by which our watch selects, its value the name of the key
	resource resource
	in       func(namespace string) client[T]
	taken    *taken[T] // nil: our watch shows every object of the kind
	written  *written
}

// create has a fixed name. If that is taken the decision is stale; a holder that our
// watch will not show is remembered. One that it will is not: with the holder as it
// is now, all else would be decided on the view that did not have it.
func (o owned[T]) create(ctx context.Context, key Key, obj T) error {
	in := o.in(key.Namespace)
	created, err := in.Create(ctx, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = fmt.Errorf("create %s %s/%s: %w", o.kind, key.Namespace, obj.GetName(), stale(err))
		if o.taken == nil {
			return err
		}
		holder, getErr := in.Get(ctx, obj.GetName(), metav1.GetOptions{})
		if getErr == nil && holder.GetLabels()[o.label] != key.Name {
			o.taken.remember(key, holder)
		}
		return errors.Join(err, getErr)
	}
	if err != nil {
		return fmt.Errorf("create %s %s/%s: %w", o.kind, key.Namespace, obj.GetName(), err)
	}
	o.wrote(key, created)
	klog.FromContext(ctx).Info("Created "+o.kind, "name", obj.GetName())
	return nil
}

func (o owned[T]) update(ctx context.Context, key Key, u plan.Update[T]) error {
	name := u.Object.GetName()
	updated, err := rewrite(ctx, o.in(key.Namespace), u.Was, u.Object)
	if err != nil {
		if o.taken != nil {
			o.taken.forget(key, name)
		}
		return fmt.Errorf("update %s %s/%s (%s): %w", o.kind, key.Namespace, name, u.Reason, stale(err))
	}
	o.wrote(key, updated)
	klog.FromContext(ctx).V(2).Info("Updated "+o.kind, "name", name, "reason", u.Reason)
	return nil
}

// wrote records the answer to a write. The object that our watch does not show is remembered as
// the answer has it.
func (o owned[T]) wrote(key Key, object T) {
	if o.taken == nil || object.GetLabels()[o.label] != "" {
		o.written.wrote(key, o.resource, object.GetResourceVersion())
		return
	}
	o.taken.remember(key, object)
	o.written.hidden(key, o.resource, object)
}

// deleting deletes objects of one kind that are as they were seen.
func deleting[T apiObject](key Key, o owned[T]) func(context.Context, plan.Deletion) error {
	return func(ctx context.Context, d plan.Deletion) error {
		err := o.in(key.Namespace).Delete(ctx, d.Name, asSeen(d))
		o.taken.forget(key, d.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s/%s (%s): %w", o.kind, key.Namespace, d.Name, d.Reason, stale(err))
		}
		o.written.deleted(key, o.resource, path(key.Namespace, d.Name), d.UID)
		klog.FromContext(ctx).Info("Deleted "+o.kind, "name", d.Name, "reason", d.Reason)
		return nil
	}
}
