package apiserver

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Patched returns the object that results from a patch.
func Patched(contentType string, r *Resource, object, patch []byte) (Object, error) {
	var text []byte
	var err error
	switch {
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
