package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

// adoptPod makes a pod ours in one write that carries its UID and resourceVersion:
// one that got a controller, or was changed, since it was looked at is refused. The
// patch names our owner reference; those of others, which are no controllers, stay.
// A pod that was found by a live read is looked for again once the cache has it, or
// it is not as it was.
func (r *Reconciler) adoptPod(ctx context.Context, key Key, a pod2.Adoption) error {
	metadata := map[string]any{
		"uid": a.UID, "resourceVersion": a.ResourceVersion,
		"ownerReferences": []metav1.OwnerReference{a.Owner},
		"labels":          a.Labels,
	}
	if a.Request != nil {
		request := any(*a.Request)
		if *a.Request == "" {
			request = nil
		}
		metadata["annotations"] = map[string]any{v1.Pod2RequestAnnotation: request}
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode the adoption of pod %s/%s: %w", key.Namespace, a.Name, err)
	}
	adopted, err := r.clients.Kube.CoreV1().Pods(key.Namespace).Patch(ctx, a.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	if err = stale(err); err == nil || errors.Is(err, ErrStale) {
		r.found.forget(key.Namespace, a.Name, a.UID)
	}
	if err != nil {
		return fmt.Errorf("adopt pod %s/%s (%s): %w", key.Namespace, a.Name, a.Reason, err)
	}
	r.found.wrote(r.written, key, podsResource, adopted)
	klog.FromContext(ctx).Info("Adopted pod", "pod", a.Name, "reason", a.Reason)
	return nil
}
