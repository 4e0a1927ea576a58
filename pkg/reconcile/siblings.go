package reconcile

import (
	"bytes"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// siblings let the pods of one controller share equal parts in memory, which are a third of a slim
// pod. Nobody changes objects of a cache.
type siblings struct {
	last  *lru.Cache // pods by stage
	parts *lru.Cache // of pods and endpoints, by content
}

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

// rememberedParts is enough for the nodes of a cluster with some hundred, together with the conditions and
// container states of pods that became Ready within some minutes.
const rememberedParts = 1000

func newSiblings() siblings { return siblings{lru.New(rememberedStages), lru.New(rememberedParts)} }

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
	pod.Spec.NodeName = internedText(s, pod.Spec.NodeName, pod.Spec.NodeName)
	pod.Status.Conditions = interned(s, &corev1.PodStatus{Conditions: pod.Status.Conditions}, pod.Status.Conditions)
	for i := range pod.Status.ContainerStatuses {
		state := &pod.Status.ContainerStatuses[i].State
		*state = interned(s, state, *state)
	}
	return pod, nil
}

// share replaces parts of a pod that equal those of a sibling.
func share(pod, sibling *corev1.Pod) {
	pod.Namespace, pod.GenerateName = common(pod.Namespace, sibling.Namespace), common(pod.GenerateName, sibling.GenerateName)
	pod.Labels, pod.Annotations = commonMap(pod.Labels, sibling.Labels), commonMap(pod.Annotations, sibling.Annotations)
	pod.OwnerReferences = commonList(pod.OwnerReferences, sibling.OwnerReferences)
	pod.Spec.SchedulingGates = commonList(pod.Spec.SchedulingGates, sibling.Spec.SchedulingGates)
	pod.Spec.InitContainers = commonList(pod.Spec.InitContainers, sibling.Spec.InitContainers)
	pod.Spec.Containers = commonList(pod.Spec.Containers, sibling.Spec.Containers)
	pod.Status.Phase = common(pod.Status.Phase, sibling.Status.Phase)
	for i := range min(len(pod.Status.ContainerStatuses), len(sibling.Status.ContainerStatuses)) {
		is, was := &pod.Status.ContainerStatuses[i], &sibling.Status.ContainerStatuses[i]
		is.Name, is.Resources = common(is.Name, was.Name), commonPart(is.Resources, was.Resources)
	}
	for i := range min(len(pod.Status.Conditions), len(sibling.Status.Conditions)) {
		is, was := &pod.Status.Conditions[i], &sibling.Status.Conditions[i]
		is.Type, is.Status = common(is.Type, was.Type), common(is.Status, was.Status)
		is.Reason, is.Message = common(is.Reason, was.Reason), common(is.Message, was.Message)
	}
}

// common is the value of a sibling if it is the same. Then its texts are in memory once.
func common[T comparable](is, sibling T) T {
	if is == sibling {
		return sibling
	}
	return is
}

// part of an object that can be encoded.
type part[T any] interface {
	*T
	Marshal() ([]byte, error)
}

// sameContent says whether two parts have the same content, with everything that they point to. Comparing
// encodings takes a tenth of the time of a comparison by reflection.
func sameContent[P part[T], T any](a, b P) bool {
	own, err := a.Marshal()
	other, otherErr := b.Marshal()
	return err == nil && otherErr == nil && bytes.Equal(own, other)
}

// commonPart is the part of a sibling if both are the same.
func commonPart[P part[T], T any](is, sibling P) P {
	if is == nil || sibling == nil || !sameContent(is, sibling) {
		return is
	}
	return sibling
}

// interned returns an earlier part with the same encoding of its whole, or this one.
func interned[P part[T], T, Part any](s siblings, whole P, is Part) Part {
	text, err := whole.Marshal()
	if err != nil {
		return is
	}
	return internedText(s, string(text), is)
}

func internedText[Part any](s siblings, content string, is Part) Part {
	type key struct {
		content string
		part    reflect.Type // parts of several types may have the same content
	}
	k := key{content, reflect.TypeFor[Part]()}
	if known, ok := s.parts.Get(k); ok {
		return known.(Part)
	}
	s.parts.Add(k, is)
	return is
}

// commonList is the list of a sibling if all elements are the same.
func commonList[T any, P part[T]](is, sibling []T) []T {
	if len(is) != len(sibling) {
		return is
	}
	for i := range is {
		if !sameContent(P(&is[i]), P(&sibling[i])) {
			return is
		}
	}
	return sibling
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

// entries is the transform of the AddressBlock informer. Pods of one controller follow each other in
// most AddressBlocks.
func (siblings) entries(obj any) (any, error) {
	if block, ok := obj.(*v1.AddressBlock); ok {
		for i, entries := 1, block.Spec.Entries; i < len(entries); i++ {
			is, was := &entries[i], &entries[i-1]
			is.Owner, is.State = common(is.Owner, was.Owner), common(is.State, was.State)
		}
	}
	return dropManagedFields(obj)
}

// endpoints is the transform of the EndpointSlice informer. Endpoints share equal parts in memory, and
// their array has no room for more.
func (s siblings) endpoints(obj any) (any, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	slice.ManagedFields = nil
	slice.Endpoints = append(make([]discoveryv1.Endpoint, 0, len(slice.Endpoints)), slice.Endpoints...)
	for i := range slice.Endpoints {
		is, first := &slice.Endpoints[i], &slice.Endpoints[0]
		is.Conditions = *commonPart(&is.Conditions, &first.Conditions)
		if is.NodeName != nil {
			is.NodeName = internedText(s, *is.NodeName, is.NodeName)
		}
		if is.TargetRef != nil && first.TargetRef != nil {
			is.TargetRef.Kind, is.TargetRef.Namespace = common(is.TargetRef.Kind, first.TargetRef.Kind), common(is.TargetRef.Namespace, first.TargetRef.Namespace)
		}
	}
	return slice, nil
}
