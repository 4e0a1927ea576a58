package reconcile

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
)

// podAnnotations and podConditions are those that decisions read. They read gatedAnnotations, too,
// until the addresses are published.
var (
	podAnnotations   = []string{v1.NetworksAnnotation, v1.Pod2RequestAnnotation, v1.Pod2LabelsAnnotation, v1.AddressesAnnotation, v1.InPlaceAnnotation, v1.SidecarsAnnotation}
	gatedAnnotations = slices.Concat(podAnnotations, []string{v1.MultusAnnotation, v1.MultusDefaultAnnotation})
	podConditions    = []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.PodResizePending, corev1.PodResizeInProgress, v1.ConditionAddressesBound}
)

// SlimPod is the transform of the pod informer. It keeps the fields that decisions read,
// a third of a pod's memory. The result can be patched, but never updated. A Pod2 may
// adopt a pod without a controller if the pod matches its template. So SlimPod keeps the
// whole spec and all annotations of such a pod.
func SlimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	slim.ManagedFields = nil
	if attachment.Gated(pod) { // only publication reads them, and it ends with the gate
		slim.ManagedFields = applied(pod.ManagedFields)
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		slim.Spec = pod.Spec
	} else {
		slim.Annotations = pick(pod.Annotations, podAnnotations)
		if attachment.Gated(pod) {
			slim.Annotations = pick(pod.Annotations, gatedAnnotations)
		}
		slim.Spec.NodeName = pod.Spec.NodeName
		slim.Spec.HostNetwork = pod.Spec.HostNetwork
		slim.Spec.SchedulingGates = pod.Spec.SchedulingGates
		for _, c := range pod.Spec.Containers {
			slim.Spec.Containers = append(slim.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy})
		}
	}
	if _, ok := pod.Annotations[v1.SidecarsAnnotation]; ok {
		if metav1.GetControllerOfNoCopy(pod) != nil {
			for _, c := range pod.Spec.InitContainers {
				slim.Spec.InitContainers = append(slim.Spec.InitContainers, corev1.Container{Name: c.Name, Image: c.Image})
			}
		}
		slim.Status.InitContainerStatuses = slimStatuses(pod.Status.InitContainerStatuses)
	}
	slim.Status.Phase = pod.Status.Phase
	slim.Status.Reason = pod.Status.Reason
	slim.Status.Message = pod.Status.Message
	slim.Status.ContainerStatuses = slimStatuses(pod.Status.ContainerStatuses)
	for _, c := range pod.Status.Conditions {
		scheduled := c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue // its NodeName says the same
		if !scheduled && slices.Contains(podConditions, c.Type) {
			slim.Status.Conditions = append(slim.Status.Conditions, c)
		}
	}
	return slim, nil
}

// applied returns the entries of server-side apply, without the fields.
func applied(entries []metav1.ManagedFieldsEntry) (slim []metav1.ManagedFieldsEntry) {
	for _, e := range entries {
		if network.Applied(e) {
			slim = append(slim, metav1.ManagedFieldsEntry{Operation: e.Operation})
		}
	}
	return slim
}

func slimStatuses(statuses []corev1.ContainerStatus) (slim []corev1.ContainerStatus) {
	for _, c := range statuses {
		slim = append(slim, corev1.ContainerStatus{
			Name: c.Name, ContainerID: c.ContainerID, Ready: c.Ready, Resources: c.Resources,
			State: corev1.ContainerState{Waiting: c.State.Waiting, Running: c.State.Running},
		})
	}
	return slim
}

// SlimStatefulSet is the transform of the StatefulSet informer. It keeps the replicas and
// the Networks that they ask for.
func SlimStatefulSet(obj any) (any, error) {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return obj, nil
	}
	slim := &appsv1.StatefulSet{ObjectMeta: set.ObjectMeta}
	slim.ManagedFields = nil
	slim.Annotations = nil
	slim.Spec.Replicas = set.Spec.Replicas
	slim.Spec.Ordinals = set.Spec.Ordinals
	slim.Spec.Template.Annotations = pick(set.Spec.Template.Annotations, []string{v1.NetworksAnnotation})
	return slim, nil
}

// SlimNode is the transform of the Node informer. It keeps the addresses of the Node: some
// hundred bytes of ten thousand.
func SlimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, ResourceVersion: node.ResourceVersion}}
	slim.Spec.PodCIDRs = node.Spec.PodCIDRs
	slim.Status.Addresses = node.Status.Addresses
	return slim, nil
}

func pick(annotations map[string]string, keys []string) map[string]string {
	var picked map[string]string
	for _, key := range keys {
		if value, ok := annotations[key]; ok {
			if picked == nil {
				picked = make(map[string]string, len(keys))
			}
			picked[key] = value
		}
	}
	return picked
}

// SlimJob is the transform of the Job informer. It keeps the Job's owner.
func SlimJob(obj any) (any, error) {
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return obj, nil
	}
	slim := &batchv1.Job{ObjectMeta: job.ObjectMeta}
	slim.ManagedFields = nil
	slim.Annotations = nil
	return slim, nil
}

// dropManagedFields is the transform of all others. The controller does not read their managed
// fields, and an update without them keeps them.
func dropManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
