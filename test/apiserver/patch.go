package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Patched returns the object that results from a patch.
func Patched(contentType string, r *Resource, object, patch []byte) (Object, error) {
	var text []byte
	var err error
	switch {
	case contentType == string(types.JSONPatchType):
		if text, err = applied(object, patch); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	case contentType == string(types.MergePatchType):
		text, err = merge(object, patch)
	case contentType == string(types.StrategicMergePatchType) && !r.custom:
		text, err = strategicpatch.StrategicMergePatch(object, patch, r.example)
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, http.MethodPatch, r.GroupResource(), "", "the body of the request was in an unknown format", 0, false)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := r.new()
	if err := json.Unmarshal(text, next); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return next, nil
}

// PatchMetadata returns the metadata that a merge patch names, or the UID, the resourceVersion
// and the owner references that a JSON patch sets.
func PatchMetadata(patch []byte) (metav1.ObjectMeta, error) {
	if !bytes.HasPrefix(patch, []byte("[")) {
		var body metav1.PartialObjectMetadata
		err := json.Unmarshal(patch, &body)
		return body.ObjectMeta, err
	}
	var operations []struct {
		Path  string
		Value json.RawMessage
	}
	var meta metav1.ObjectMeta
	if err := json.Unmarshal(patch, &operations); err != nil {
		return meta, err
	}
	for _, o := range operations {
		var err error
		switch o.Path {
		case "/metadata/uid":
			err = json.Unmarshal(o.Value, &meta.UID)
		case "/metadata/resourceVersion":
			err = json.Unmarshal(o.Value, &meta.ResourceVersion)
		case "/metadata/ownerReferences":
			if o.Value != nil { // not removed
				err = json.Unmarshal(o.Value, &meta.OwnerReferences)
			}
		}
		if err != nil {
			return meta, err
		}
	}
	return meta, nil
}

// applied implements RFC 6902.
func applied(object, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(object)
}

// merge implements RFC 7386.
func merge(object, patch []byte) ([]byte, error) {
	var a, b any
	if err := json.Unmarshal(object, &a); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &b); err != nil {
		return nil, err
	}
	return json.Marshal(merged(a, b))
}

func merged(a, b any) any {
	changes, ok := b.(map[string]any)
	if !ok {
		return b
	}
	object, ok := a.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = merged(object[name], value)
		}
	}
	return object
}
