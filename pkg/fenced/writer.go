// Package fenced writes to the API with preconditions alone: a create by its fixed name,
// an update by UID and resourceVersion, a patch and a deletion by UID, and by
// resourceVersion unless the write is to reach whatever became of the object. Who has a
// Writer and no client can ask for nothing else (S7).
package fenced

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is what a typed client takes and returns.
type Object interface {
	runtime.Object
	metav1.Object
}

// Client is what a typed clientset has for one kind of object in a namespace.
type Client[T Object] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, body []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Fence is the precondition of a write to an object that exists.
type Fence struct {
	name    string
	uid     types.UID
	version string // "": whatever became of the object since
}

// AsSeen is met by the object as it was seen, and by no later version of it.
func AsSeen(o metav1.Object) Fence { return Version(o.GetName(), o.GetUID(), o.GetResourceVersion()) }

// Version is met by one version of one incarnation.
func Version(name string, uid types.UID, resourceVersion string) Fence {
	if resourceVersion == "" {
		resourceVersion = "unknown" // which the API server refuses
	}
	return Fence{name, uid, resourceVersion}
}

// Incarnation is met by every version of one incarnation: for what stays right whatever
// else changes.
func Incarnation(name string, uid types.UID) Fence { return Fence{name, uid, ""} }

// Name is that of the object.
func (f Fence) Name() string { return f.name }

// UID is that of the incarnation.
func (f Fence) UID() types.UID { return f.uid }

func (f Fence) metadata() Fields {
	m := Fields{"uid": f.uid}
	if f.version != "" {
		m["resourceVersion"] = f.version
	}
	return m
}

// Fields are those that a patch names, by their JSON names; nil deletes one.
type Fields map[string]any

// Writer writes the objects of one kind.
type Writer[T Object] struct {
	in      func(namespace string) Client[T]
	patches types.PatchType
}

// New makes the writer of what a clientset has. Kinds that the API server compiles in take
// strategic merge patches, which merge containers by name and conditions by type; those
// of CustomResourceDefinitions merge patches alone.
func New[T Object](patches types.PatchType, in func(namespace string) Client[T]) Writer[T] {
	return Writer[T]{in: in, patches: patches}
}

// Create creates an object by its fixed name. That the name is taken is ErrStale; a
// conflict, which is one over a quota, is not.
func (w Writer[T]) Create(ctx context.Context, obj T) (T, error) {
	created, err := w.in(obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = Stale(err)
	}
	return created, err
}

// Update turns the object that was seen into the one that is wanted. Its status stays.
// It writes the difference alone, as a merge patch: while the CustomResourceDefinitions,
// or the API server, are newer than this controller, an object may have fields that our
// types do not know, and a PUT of our types would delete them.
//
// A list is replaced as a whole if anything in it changes. So fields that we do not know are lost
// inside the elements of a list that we change: the entries of an AddressBlock, the conditions of
// a status, the containers of a CronJob, the endpoints of an EndpointSlice. All of these are lists
// whose every element we write ourselves. A new field of theirs needs a controller that knows it
// before anything writes it.
func (w Writer[T]) Update(ctx context.Context, seen, wanted T) (T, error) {
	var none T
	bare := seen.DeepCopyObject().(T)
	bare.SetUID("")
	bare.SetResourceVersion("")
	wanted = wanted.DeepCopyObject().(T)
	wanted.SetUID(seen.GetUID())
	wanted.SetResourceVersion(seen.GetResourceVersion())
	was, err := json.Marshal(bare)
	if err != nil {
		return none, fmt.Errorf("encode the object as it was seen: %w", err)
	}
	is, err := json.Marshal(wanted)
	if err != nil {
		return none, fmt.Errorf("encode the object as it is wanted: %w", err)
	}
	body, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return none, fmt.Errorf("compare the object as it was seen with the one that is wanted: %w", err)
	}
	updated, err := w.in(seen.GetNamespace()).Patch(ctx, seen.GetName(), types.MergePatchType, body, metav1.PatchOptions{})
	return updated, Stale(err)
}

// UpdateStatus is Update for a status. It names all fields that our types have, changed or
// not: a number that is 0 is to be 0 in what users read, and not absent because it was
// never written. No field of a status of ours is an object.
func (w Writer[T]) UpdateStatus(ctx context.Context, seen, wanted T) (T, error) {
	var none T
	was, err := statusFields(seen)
	if err != nil {
		return none, err
	}
	is, err := statusFields(wanted)
	if err != nil {
		return none, err
	}
	for name := range was {
		if _, kept := is[name]; !kept {
			is[name] = nil
		}
	}
	return w.patch(ctx, types.MergePatchType, seen.GetNamespace(), AsSeen(seen), Fields{}, Fields{"status": is}, "status")
}

func statusFields(obj any) (Fields, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode a status: %w", err)
	}
	var part struct{ Status map[string]json.RawMessage }
	if err := json.Unmarshal(text, &part); err != nil {
		return nil, fmt.Errorf("encode a status: %w", err)
	}
	status := Fields{}
	for name, value := range part.Status {
		status[name] = value
	}
	return status, nil
}

// Patch writes the named fields of an object, and no others.
func (w Writer[T]) Patch(ctx context.Context, namespace string, fence Fence, metadata, rest Fields, subresources ...string) (T, error) {
	return w.patch(ctx, w.patches, namespace, fence, metadata, rest, subresources...)
}

func (w Writer[T]) patch(ctx context.Context, kind types.PatchType, namespace string, fence Fence, metadata, rest Fields, subresources ...string) (T, error) {
	var none T
	body := Fields{}
	for name, value := range rest {
		body[name] = value
	}
	head := fence.metadata()
	for name, value := range metadata {
		head[name] = value
	}
	body["metadata"] = head
	text, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("encode a patch: %w", err)
	}
	patched, err := w.in(namespace).Patch(ctx, fence.name, kind, text, metav1.PatchOptions{}, subresources...)
	return patched, Stale(err)
}

// Delete deletes an object; that it is gone is no error. In the foreground, what it owns
// goes first.
func (w Writer[T]) Delete(ctx context.Context, namespace string, fence Fence, propagation *metav1.DeletionPropagation) error {
	preconditions := &metav1.Preconditions{UID: &fence.uid}
	if fence.version != "" {
		preconditions.ResourceVersion = &fence.version
	}
	err := w.in(namespace).Delete(ctx, fence.name, metav1.DeleteOptions{Preconditions: preconditions, PropagationPolicy: propagation})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return Stale(err)
}

// Get reads an object from the API server.
func (w Writer[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return w.in(namespace).Get(ctx, name, metav1.GetOptions{})
}
