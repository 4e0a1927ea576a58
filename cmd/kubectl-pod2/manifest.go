package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// manifests are the objects of the files, each with its namespace.
type manifests struct {
	pod2s, networks []*unstructured.Unstructured
	others          []string
}

// readManifests reads files as `kubectl apply` does. enforced says that --namespace is
// set, so another namespace in the file is an error.
func readManifests(files *resource.FilenameOptions, namespace string, enforced bool) (manifests, error) {
	var m manifests
	infos, err := resource.NewLocalBuilder().Unstructured().Local().FilenameParam(false, files).Flatten().Do().Infos()
	if err != nil {
		return m, fmt.Errorf("read the manifests: %w", err)
	}
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return m, fmt.Errorf("read the manifests: %s is not an object", info.Source)
		}
		kind := object.GroupVersionKind()
		name := kind.Kind + "/" + object.GetName()
		if kind.GroupVersion().String() != v1.GroupVersion.String() || kind.Kind != "Pod2" && kind.Kind != "Network" {
			m.others = append(m.others, name)
			continue
		}
		switch is := object.GetNamespace(); {
		case object.GetName() == "":
			return m, fmt.Errorf("a %s in %s has no name: set metadata.name", kind.Kind, info.Source)
		case is == "":
			object.SetNamespace(namespace)
		case enforced && is != namespace:
			return m, fmt.Errorf("%s is in namespace %s, but --namespace is %s: they must match", name, is, namespace)
		}
		if kind.Kind == "Pod2" {
			m.pod2s = append(m.pod2s, object)
		} else {
			m.networks = append(m.networks, object)
		}
	}
	return m, nil
}

// manner of applying.
type manner struct{ serverSide, force bool }

// outcome of an apply. before is nil if the apply would create the object.
type outcome[T any] struct{ before, after T }

type patcher[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, body []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// withLastApplied encodes an object with the annotation that `kubectl apply` adds.
// Without it, the patch would remove all annotations.
func withLastApplied(object *unstructured.Unstructured) ([]byte, error) {
	object = object.DeepCopy()
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	object.SetAnnotations(annotations)
	applied, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(applied)
	object.SetAnnotations(annotations)
	return object.MarshalJSON()
}

// dryRun lets the API server apply an object in a dry run. It sends the same request as
// `kubectl apply`: the patch between the file, the file that was applied last and the
// existing object. With --server-side, or if no object exists, it sends the file.
func dryRun[T metav1.Object](ctx context.Context, client patcher[T], object *unstructured.Unstructured, how manner) (outcome[T], error) {
	var result outcome[T]
	what := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
	live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case err == nil:
		result.before = live
	case !apierrors.IsNotFound(err):
		return result, fmt.Errorf("get %s: %w", what, err)
	}
	body, encodeErr := object.MarshalJSON()
	kind, force := types.ApplyPatchType, how.force
	if err == nil && !how.serverSide {
		body, encodeErr = withLastApplied(object)
		current, currentErr := json.Marshal(live)
		patch, patchErr := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), body, current)
		body, kind, encodeErr = patch, types.MergePatchType, errors.Join(encodeErr, currentErr, patchErr)
	}
	if encodeErr != nil {
		return result, fmt.Errorf("compute the patch of %s: %w", what, encodeErr)
	}
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict}
	if kind == types.ApplyPatchType {
		options.Force = ptr.To(force)
	}
	if result.after, err = client.Patch(ctx, object.GetName(), kind, body, options); err != nil {
		return result, fmt.Errorf("apply %s in a dry run: %w", what, err)
	}
	return result, nil
}
