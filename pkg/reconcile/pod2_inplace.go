package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

// resizePod asks for other resources of a running pod, through the subresource
// that lets them be changed (KEP-1287) and nothing else. That they were asked for
// is on record before; what came between the two writes refuses the second. What the
// API server calls invalid is remembered, and no error.
func (r *Reconciler) resizePod(ctx context.Context, key Key, resize pod2.Resize) error {
	version := resize.ResourceVersion
	if resize.Annotation != "" {
		marked, err := r.patchRunningPod(ctx, key, resize.Name, resize.UID, map[string]any{"metadata": map[string]any{
			"uid": resize.UID, "resourceVersion": version, "annotations": map[string]string{v1.InPlaceAnnotation: resize.Annotation},
		}})
		if err != nil {
			return fmt.Errorf("record that pod %s/%s is resized (%s): %w", key.Namespace, resize.Name, resize.Reason, err)
		}
		version = marked.ResourceVersion
	}
	var containers []any
	for _, name := range slices.Sorted(maps.Keys(resize.Resources)) {
		containers = append(containers, map[string]any{"name": name, "resources": resize.Resources[name]})
	}
	body := map[string]any{
		"metadata": map[string]any{"uid": resize.UID, "resourceVersion": version},
		"spec":     map[string]any{"containers": containers},
	}
	_, err := r.patchRunningPod(ctx, key, resize.Name, resize.UID, body, "resize")
	if message, mendable := forUser(err); mendable && apierrors.IsInvalid(err) {
		// Whatever the reason (the QoS class, what admission added, a node that cannot),
		// it is the pod's, and another pod may be had.
		r.refused.remember(key, resize.UID, pod2.Refusal{Resources: resize.Resources, Message: message})
		klog.FromContext(ctx).Info("Pod cannot be resized, and is to be recreated", "pod", resize.Name, "reason", message)
		return nil
	}
	if err != nil {
		return fmt.Errorf("resize pod %s/%s (%s): %w", key.Namespace, resize.Name, resize.Reason, err)
	}
	klog.FromContext(ctx).Info("Resized pod", "pod", resize.Name, "reason", resize.Reason)
	return nil
}

// updatePod changes a running pod, and with the same write says what it was made
// from and which containers restart for it.
func (r *Reconciler) updatePod(ctx context.Context, key Key, update pod2.InPlaceUpdate) error {
	body := map[string]any{"metadata": map[string]any{
		"uid": update.UID, "resourceVersion": update.ResourceVersion,
		"labels": update.Labels, "annotations": given(update.Given, map[string]any{v1.InPlaceAnnotation: update.Annotation}),
	}}
	var containers []any
	for _, name := range slices.Sorted(maps.Keys(update.Images)) {
		containers = append(containers, map[string]any{"name": name, "image": update.Images[name]})
	}
	if len(containers) > 0 {
		body["spec"] = map[string]any{"containers": containers}
	}
	if _, err := r.patchRunningPod(ctx, key, update.Name, update.UID, body); err != nil {
		return fmt.Errorf("update pod %s/%s in place (%s): %w", key.Namespace, update.Name, update.Reason, err)
	}
	klog.FromContext(ctx).Info("Updated pod in place", "pod", update.Name, "reason", update.Reason)
	return nil
}

// labelPod changes labels of a pod, and with the same write says which of them the Pod2 gave it.
func (r *Reconciler) labelPod(ctx context.Context, key Key, l pod2.Relabelling) error {
	_, err := r.patchRunningPod(ctx, key, l.Name, l.UID, map[string]any{"metadata": map[string]any{
		"uid": l.UID, "resourceVersion": l.ResourceVersion, "labels": l.Labels, "annotations": given(l.Given, map[string]any{}),
	}})
	if err != nil {
		return fmt.Errorf("change labels of pod %s/%s: %w", key.Namespace, l.Name, err)
	}
	klog.FromContext(ctx).Info("Changed labels of pod", "pod", l.Name, "change", l.String())
	return nil
}

// given adds the record of the labels that a Pod2 gave to the annotations of a patch.
func given(record *string, annotations map[string]any) map[string]any {
	if record != nil {
		if annotations[v1.Pod2LabelsAnnotation] = *record; *record == "" {
			annotations[v1.Pod2LabelsAnnotation] = nil // null deletes it
		}
	}
	return annotations
}

// patchRunningPod changes a pod that is as it was seen. One that changed is remembered as it is
// now, in case it lost the label by which our watch sees it; one that is gone is remembered no more.
func (r *Reconciler) patchRunningPod(ctx context.Context, key Key, name string, uid types.UID, body map[string]any, subresources ...string) (*corev1.Pod, error) {
	patch, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode a patch: %w", err)
	}
	// Strategic: containers are merged by name.
	pods := r.clients.Kube.CoreV1().Pods(key.Namespace)
	patched, err := pods.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, subresources...)
	switch {
	case apierrors.IsConflict(err):
		if live, getErr := pods.Get(ctx, name, metav1.GetOptions{}); getErr == nil {
			r.found.remember(live)
		}
	case apierrors.IsNotFound(err) || otherUID(err):
		r.found.forget(key.Namespace, name, uid)
	}
	if err != nil {
		return nil, stale(err)
	}
	r.found.wrote(r.written, key, podsResource, patched)
	return patched, nil
}
