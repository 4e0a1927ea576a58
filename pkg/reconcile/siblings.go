package reconcile

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// siblings let the pods of one controller share equal parts in memory, which are a third of a slim
// pod. Nobody changes objects of a cache.
type siblings struct{ last *lru.Cache } // by stage

// stage of a pod. Pods of one controller have most in common in the same stage: a pod that waits for
// its addresses has neither their annotation nor the status of containers.
type stage struct {
	controller types.UID
	gated      bool
	phase      corev1.PodPhase
}

// rememberedStages is for how many stages the last pod is remembered. Pods of further ones share
// nothing. A controller has three while its pods start.
const rememberedStages = 3000

func newSiblings() siblings { return siblings{lru.New(rememberedStages)} }

// slim is SlimPod, as a transform of an informer.
func (s siblings) slim(obj any) (any, error) {
	slim, err := SlimPod(obj)
	pod, ok := slim.(*corev1.Pod)
	if !ok {
		return slim, err
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		reached := stage{ref.UID, len(pod.Spec.SchedulingGates) > 0, pod.Status.Phase}
		if last, known := s.last.Get(reached); known {
			share(pod, last.(*corev1.Pod))
		}
		s.last.Add(reached, pod)
	}
	return pod, nil
}

// share replaces parts of a pod that equal those of a sibling.
func share(pod, sibling *corev1.Pod) {
	pod.Namespace, pod.GenerateName = common(pod.Namespace, sibling.Namespace), common(pod.GenerateName, sibling.GenerateName)
	pod.Labels, pod.Annotations = commonMap(pod.Labels, sibling.Labels), commonMap(pod.Annotations, sibling.Annotations)
	pod.OwnerReferences = commonPart(pod.OwnerReferences, sibling.OwnerReferences)
	pod.Spec.SchedulingGates = commonPart(pod.Spec.SchedulingGates, sibling.Spec.SchedulingGates)
	pod.Spec.InitContainers = commonPart(pod.Spec.InitContainers, sibling.Spec.InitContainers)
	pod.Spec.Containers = commonPart(pod.Spec.Containers, sibling.Spec.Containers)
	pod.Status.Phase = common(pod.Status.Phase, sibling.Status.Phase)
	for i := range min(len(pod.Status.ContainerStatuses), len(sibling.Status.ContainerStatuses)) {
		is, was := &pod.Status.ContainerStatuses[i], &sibling.Status.ContainerStatuses[i]
		is.Name, is.State, is.Resources = common(is.Name, was.Name), commonPart(is.State, was.State), commonPart(is.Resources, was.Resources)
	}
	pod.Status.Conditions = commonPart(pod.Status.Conditions, sibling.Status.Conditions) // many change in the same second
	for i := range min(len(pod.Status.Conditions), len(sibling.Status.Conditions)) {
		is, was := &pod.Status.Conditions[i], &sibling.Status.Conditions[i]
		is.Type, is.Status = common(is.Type, was.Type), common(is.Status, was.Status)
		is.Reason, is.Message = common(is.Reason, was.Reason), common(is.Message, was.Message)
	}
}

// common is the text of a sibling if it is the same.
func common[T ~string](is, sibling T) T {
	if is == sibling {
		return sibling
	}
	return is
}

// commonPart is the part of a sibling if it equals, with everything that it points to.
func commonPart[T any](is, sibling T) T {
	if equality.Semantic.DeepEqual(is, sibling) {
		return sibling
	}
	return is
}

// commonMap takes the whole map of a sibling if it is the same, otherwise its keys and values.
func commonMap(is, sibling map[string]string) map[string]string {
	if maps.Equal(is, sibling) {
		return sibling
	}
	result := make(map[string]string, len(is))
	for key, value := range sibling {
		if own, has := is[key]; has {
			result[key] = common(own, value)
		}
	}
	for key, value := range is {
		if _, has := sibling[key]; !has {
			result[key] = value
		}
	}
	return result
}

// shareEndpoints is the transform of the EndpointSlice informer. Endpoints of one slice share equal
// parts in memory, and the array has no room for more.
func shareEndpoints(obj any) (any, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	slice.ManagedFields = nil
	slice.Endpoints = append(make([]discoveryv1.Endpoint, 0, len(slice.Endpoints)), slice.Endpoints...)
	for i := range slice.Endpoints {
		is, first := &slice.Endpoints[i], &slice.Endpoints[0]
		is.Conditions = commonPart(is.Conditions, first.Conditions)
		if is.TargetRef != nil && first.TargetRef != nil {
			is.TargetRef.Kind, is.TargetRef.Namespace = common(is.TargetRef.Kind, first.TargetRef.Kind), common(is.TargetRef.Namespace, first.TargetRef.Namespace)
		}
	}
	return slice, nil
}
