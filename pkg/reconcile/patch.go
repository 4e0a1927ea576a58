package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// apiObject is what a typed client takes and returns.
type apiObject interface {
	runtime.Object
	metav1.Object
}

// patcher is the Patch of a typed client.
type patcher[T any] interface {
	Patch(ctx context.Context, name string, kind types.PatchType, body []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// rewrite turns the object that was seen into the one that is wanted, but for its status. It is the
// writer of all objects that we do not only create, and writes the difference alone, as a merge patch: while
// the CustomResourceDefinitions, or the API server, are newer than this controller, an object
// may have fields that our types do not know, and a PUT of our types would delete them. The UID
// and the resourceVersion that were seen are the precondition.
//
// A list is replaced as a whole if anything in it changes. So fields that we do not know are lost
// inside the elements of a list that we change: the entries of an AddressBlock, the conditions of
// a status, the containers of a CronJob, the endpoints of an EndpointSlice. All of these are lists
// whose every element we write ourselves. A new field of theirs needs a controller that knows it
// before anything writes it.
func rewrite[T apiObject](ctx context.Context, in patcher[T], seen, wanted T) (T, error) {
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
	return in.Patch(ctx, seen.GetName(), types.MergePatchType, body, metav1.PatchOptions{})
}

// rewriteStatus is rewrite for a status. It names all fields that our types have, changed or not: a
// number that is 0 is to be 0 in what users read, and not absent because it was never written.
// No field of a status of ours is an object.
func rewriteStatus[T apiObject](ctx context.Context, in patcher[T], seen, wanted T) (T, error) {
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
			is[name] = nil // null deletes it
		}
	}
	return overwrite(ctx, in, seen, fields{}, fields{"status": is}, "status")
}

func statusFields(obj any) (fields, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode a status: %w", err)
	}
	var part struct{ Status map[string]json.RawMessage }
	if err := json.Unmarshal(text, &part); err != nil {
		return nil, fmt.Errorf("encode a status: %w", err)
	}
	status := fields{}
	for name, value := range part.Status {
		status[name] = value
	}
	return status, nil
}

// fields are those that a write names, by their JSON names.
type fields map[string]any

// overwrite writes the named fields of an object that was seen, and no others, with the same
// precondition as rewrite. It is for the writes whose fields are few and always the same.
func overwrite[T apiObject](ctx context.Context, in patcher[T], seen T, metadata, rest fields, subresources ...string) (T, error) {
	var none T
	body := fields{"metadata": metadata}
	for name, value := range rest {
		body[name] = value
	}
	metadata["uid"], metadata["resourceVersion"] = seen.GetUID(), seen.GetResourceVersion()
	patch, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("encode a patch: %w", err)
	}
	return in.Patch(ctx, seen.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
}
