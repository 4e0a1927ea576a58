//go:build integration

package integration

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// sweep deletes the active objects of a namespace, and the objects to which controllers of
// the whole cluster would react. The rest stays until the end of the cluster. Deleting a
// namespace would make kube-controller-manager delete and list every kind, again and again
// if a finalizer waits for a stopped controller. That caused more than half of all
// requests.
func sweep(ctx context.Context, namespace string) error {
	at := schema.GroupVersion{Group: "samplecrd.k8s.io", Version: "v1"}
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	for _, resource := range []schema.GroupVersionResource{ // first the kinds that create others
		{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
		{Group: "stable.example.com", Version: "v1", Resource: "crontabs"},
		at.WithResource("pod2s"), at.WithResource("networks"), at.WithResource("addressblocks"),
		apps.WithResource("deployments"), apps.WithResource("replicasets"), apps.WithResource("statefulsets"),
		{Group: "batch", Version: "v1", Resource: "cronjobs"}, {Group: "batch", Version: "v1", Resource: "jobs"},
		podsResource,
	} {
		in := dyn.Resource(resource).Namespace(namespace)
		if resource.Resource == "networks" {
			if err := allowDeletionOf(ctx, in); err != nil {
				return fmt.Errorf("sweep %s of %s: %w", resource.Resource, namespace, err)
			}
		}
		err := in.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // a test removed the CRDs
		}
		if err != nil {
			return fmt.Errorf("sweep %s of %s: %w", resource.Resource, namespace, err)
		}
		left, err := in.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("sweep %s of %s: %w", resource.Resource, namespace, err)
		}
		for _, object := range left.Items { // the controller that would remove their finalizers has stopped
			_, err := in.Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("sweep %s of %s: %w", resource.Resource, namespace, err)
			}
		}
	}
	return nil
}

// allowDeletionOf is allowDeletion for a test that may have failed.
func allowDeletionOf(ctx context.Context, networks dynamic.ResourceInterface) error {
	list, err := networks.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // a test removed the CRDs
	}
	if err != nil {
		return err
	}
	for _, n := range list.Items {
		_, err := networks.Patch(ctx, n.GetName(), types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1.AllowDeletionAnnotation+`":"true"}}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
