package reconcile

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// podAnnotations and podConditions are the ones that decisions read.
var (
	podAnnotations = []string{v1.NetworksAnnotation, v1.Pod2RequestAnnotation, v1.Pod2LabelsAnnotation, v1.AddressesAnnotation, v1.MultusAnnotation, v1.MultusDefaultAnnotation, v1.InPlaceAnnotation}
	podConditions  = []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.PodResizePending, corev1.PodResizeInProgress, v1.ConditionAddressesBound}
)

// SlimPod is the transform of the pod informer: it keeps what decisions read, a
// third of a pod's memory. What it leaves can be patched, never updated. Of a pod
// without a controller, which a Pod2 adopts if it is as its template has it, that
// is the spec and every annotation.
func SlimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	slim.ManagedFields = nil
	if metav1.GetControllerOfNoCopy(pod) == nil {
		slim.Spec = pod.Spec
	} else {
		slim.Annotations = pick(pod.Annotations, podAnnotations)
		slim.Spec.NodeName = pod.Spec.NodeName
		slim.Spec.HostNetwork = pod.Spec.HostNetwork
		slim.Spec.SchedulingGates = pod.Spec.SchedulingGates
		for _, c := range pod.Spec.Containers {
			slim.Spec.Containers = append(slim.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy})
		}
	}
	slim.Status.Phase = pod.Status.Phase
	slim.Status.Reason = pod.Status.Reason
	slim.Status.Message = pod.Status.Message
	for _, c := range pod.Status.ContainerStatuses {
		slim.Status.ContainerStatuses = append(slim.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, ContainerID: c.ContainerID, Ready: c.Ready, Resources: c.Resources,
			State: corev1.ContainerState{Waiting: c.State.Waiting, Running: c.State.Running},
		})
	}
	for _, c := range pod.Status.Conditions {
		if slices.Contains(podConditions, c.Type) {
			slim.Status.Conditions = append(slim.Status.Conditions, c)
		}
	}
	return slim, nil
}

// SlimStatefulSet is the transform of the StatefulSet informer: it keeps which
// replicas there are and which Networks they ask for.
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

// SlimAgent is the transform of the informer of agents: it keeps where one is, and whether
// it is Ready.
func SlimAgent(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Pod{ObjectMeta: identity(pod.ObjectMeta)}
	slim.Namespace, slim.DeletionTimestamp = pod.Namespace, pod.DeletionTimestamp
	slim.Spec.NodeName = pod.Spec.NodeName
	slim.Status.Phase = pod.Status.Phase
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			slim.Status.Conditions = append(slim.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
	return slim, nil
}

// SlimNode is the transform of the Node informer: it keeps our condition, what a write
// of it needs, and which addresses the Node uses: some hundred bytes of ten thousand.
func SlimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Node{ObjectMeta: identity(node.ObjectMeta)}
	slim.Spec.PodCIDRs = node.Spec.PodCIDRs
	slim.Status.Addresses = node.Status.Addresses
	for _, c := range node.Status.Conditions {
		if c.Type == v1.ConditionDataPlaneReady {
			slim.Status.Conditions = append(slim.Status.Conditions, c)
		}
	}
	return slim, nil
}

// identity is what tells an object, and its version.
func identity(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion}
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

// SlimJob is the transform of the Job informer: it keeps whose the Job is.
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

// dropManagedFields is the transform of all others: nobody here reads them, and an
// update without them leaves them as they are.
func dropManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
