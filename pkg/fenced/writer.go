// Package fenced makes every write to the API carry a precondition. A create has a fixed
// name, and an update has UID and resourceVersion. A patch and a deletion have the UID,
// and the resourceVersion unless the write must succeed on any version. Code that has a
// Writer and no client can make no other write (S7).
package fenced

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is the type that a typed client takes and returns.
type Object interface {
	runtime.Object
	metav1.Object
}

// Client has the methods of a typed clientset for one kind of object in a namespace.
type Client[T Object] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, body []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Fence is the precondition of a write to an existing object.
type Fence struct {
	name    string
	uid     types.UID
	version string // "": any version of the object
}

// AsSeen matches the observed version of the object and no later one.
func AsSeen(o metav1.Object) Fence { return Version(o.GetName(), o.GetUID(), o.GetResourceVersion()) }

// Version matches one version of the object with this UID.
func Version(name string, uid types.UID, resourceVersion string) Fence {
	return Fence{name, known(uid), known(resourceVersion)}
}

// Incarnation matches every version of the object with this UID, for writes that stay
// right when other fields change.
func Incarnation(name string, uid types.UID) Fence { return Fence{name, known(uid), ""} }

// An empty precondition matches every object, so known replaces it with one that the API
// server refuses.
func known[T ~string](value T) T { return cmp.Or(value, "unknown") }

// Name is the name of the object.
func (f Fence) Name() string { return f.name }

// UID is the UID of the object.
func (f Fence) UID() types.UID { return f.uid }

func (f Fence) metadata() Fields {
	m := Fields{"uid": f.uid}
	if f.version != "" {
		m["resourceVersion"] = f.version
	}
	return m
}

// Fields are the fields in a patch, by their JSON names; nil deletes one.
type Fields map[string]any

// Writer writes the objects of one kind.
type Writer[T Object] struct {
	in      func(namespace string) Client[T]
	patches types.PatchType
}

// New makes a writer from a clientset's client, with the kind of patch that Patch sends. Kinds
// that are built into the API server take strategic merge patches, which merge containers by
// name and conditions by type. Kinds of CustomResourceDefinitions do not.
func New[T Object](patches types.PatchType, in func(namespace string) Client[T]) Writer[T] {
	return Writer[T]{in: in, patches: patches}
}

// Create creates an object with a fixed name. A taken name is ErrStale. A conflict is
// not: it comes from a quota.
func (w Writer[T]) Create(ctx context.Context, obj T) (T, error) {
	if obj.GetName() == "" {
		var none T
		return none, errors.New("create an object without a fixed name: this is a defect of the controller")
	}
	created, err := w.in(obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = Stale(err)
	}
	return created, err
}

// DryRun returns the object that Create would store. Nothing is stored.
func (w Writer[T]) DryRun(ctx context.Context, obj T) (T, error) {
	if obj.GetName() == "" {
		var none T
		return none, errors.New("create an object without a fixed name: this is a defect of the controller")
	}
	return w.in(obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// Update changes the observed object into the wanted one, without its status. It writes
// only the difference, as a merge patch. CustomResourceDefinitions or the API server may
// be newer than this controller. Then an object may have fields that our types lack, and
// a PUT would delete them.
//
// A list is replaced as a whole if any element changes. So unknown fields are lost inside
// the elements of a changed list: the conditions of a status, the containers of a CronJob,
// the endpoints of an EndpointSlice. We write every element of these lists ourselves. If
// such an element gets a new field, the controller must know it before anyone writes it.
func (w Writer[T]) Update(ctx context.Context, seen, wanted T) (T, error) {
	var none T
	bare := seen.DeepCopyObject().(T)
	bare.SetUID("")
	bare.SetResourceVersion("")
	wanted = wanted.DeepCopyObject().(T)
	fence := AsSeen(seen)
	wanted.SetUID(fence.uid)
	wanted.SetResourceVersion(fence.version)
	was, err := json.Marshal(bare)
	if err != nil {
		return none, fmt.Errorf("encode the observed object: %w", err)
	}
	is, err := json.Marshal(wanted)
	if err != nil {
		return none, fmt.Errorf("encode the wanted object: %w", err)
	}
	body, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return none, fmt.Errorf("compare the observed object with the wanted one: %w", err)
	}
	updated, err := w.in(seen.GetNamespace()).Patch(ctx, seen.GetName(), types.MergePatchType, body, metav1.PatchOptions{})
	return updated, Stale(err)
}

// UpdateStatus is Update for a status. It writes all fields of our types, changed or not:
// users must see a number 0 instead of a missing field. A field that is an object is
// replaced as a whole.
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
	if is, err = statusPatch(was, is); err != nil {
		return none, err
	}
	return w.patch(ctx, types.MergePatchType, seen.GetNamespace(), AsSeen(seen), Fields{}, Fields{"status": is}, "status")
}

// statusPatch returns the merge patch from one status to another, with all fields.
func statusPatch(was, is Fields) (Fields, error) {
	for name, old := range was {
		next, kept := is[name].(json.RawMessage)
		if !kept {
			is[name] = nil
			continue
		}
		if old := old.(json.RawMessage); old[0] == '{' && next[0] == '{' { // a merge patch would keep the other fields of the old object
			patch, err := jsonpatch.CreateMergePatch(old, next)
			if err != nil {
				return nil, fmt.Errorf("compare the observed status with the wanted one: %w", err)
			}
			is[name] = json.RawMessage(patch)
		}
	}
	return is, nil
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

// Patch writes the named fields of an object and no others.
func (w Writer[T]) Patch(ctx context.Context, namespace string, fence Fence, metadata, rest Fields, subresources ...string) (T, error) {
	return w.patch(ctx, w.patches, namespace, fence, metadata, rest, subresources...)
}

func (w Writer[T]) patch(ctx context.Context, kind types.PatchType, namespace string, fence Fence, metadata, rest Fields, subresources ...string) (T, error) {
	var none T
	body, head := Fields{}, Fields{}
	maps.Copy(body, rest)
	maps.Copy(head, metadata)
	maps.Copy(head, fence.metadata())
	body["metadata"] = head
	text, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("encode a patch: %w", err)
	}
	patched, err := w.in(namespace).Patch(ctx, fence.name, kind, text, metav1.PatchOptions{}, subresources...)
	return patched, Stale(err)
}

// Operation is one operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Annotate sets an annotation of an object that has annotations.
func Annotate(key, value string) Operation { return Operation{"add", annotation(key), value} }

// Unannotate removes an annotation.
func Unannotate(key string) Operation { return Operation{"remove", annotation(key), nil} }

// ClearManagedFields removes all field managers of an object. The API server then tracks none
// until the next server-side apply (Kubernetes documentation: Server-Side Apply, "Clearing
// managedFields").
var ClearManagedFields = Operation{"add", "/metadata/managedFields", []struct{}{{}}}

// annotation is the JSON pointer (RFC 6901) of an annotation.
func annotation(key string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// Change applies operations that were derived from one version of an object of any kind. It
// is the cheapest write for the API server, which merges nothing. If an operation cannot be
// applied, the object has another version, and the error is ErrStale. So an operation that
// does not fit that version would be retried forever.
func (w Writer[T]) Change(ctx context.Context, namespace string, fence Fence, operations ...Operation) (T, error) {
	var none T
	text, err := json.Marshal(append(slices.Clip(operations), // the last operation on a field counts
		Operation{"replace", "/metadata/uid", fence.uid}, Operation{"replace", "/metadata/resourceVersion", known(fence.version)}))
	if err != nil {
		return none, fmt.Errorf("encode a patch: %w", err)
	}
	changed, err := w.in(namespace).Patch(ctx, fence.name, types.JSONPatchType, text, metav1.PatchOptions{})
	if inapplicable(err) {
		err = fmt.Errorf("%w: %w", ErrStale, err)
	}
	return changed, Stale(err)
}

// Delete deletes an object; it is no error if the object is already gone. With foreground
// propagation, the objects that it owns are deleted first.
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
