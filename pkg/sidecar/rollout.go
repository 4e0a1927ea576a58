package sidecar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/pod2"
)

// Update gives a running pod the images of status.injected.
type Update struct {
	Pod *corev1.Pod
	pod2.SidecarUpdate
}

// Updates returns the updates that the bounds of the Sidecar allow now. The replicas of
// Pod2s are among them: pod2.Diff makes their updates within the bounds of the Pod2.
//
//	not available     at once, because nothing is lost
//	available         those that are Ready for longest first, while fewer than
//	                  maxUnavailable pods are not available
//	the last ones     keep their images, as many as partition
//	replicas of a Pod2 with maxUnavailable 0    get their images when they are replaced
//
// Two callers can have views of different ages. Of a set of available pods, both select
// the same ones: a pod that becomes Ready later comes after the others.
func Updates(s State) []Update {
	updates, left := s.behind()
	return slices.DeleteFunc(updates, func(u Update) bool {
		if !pod2.Available(u.Pod) || !u.Costs(u.Pod) {
			return false
		}
		left--
		return left < 0
	})
}

// updatesWait says whether all updates that the sync of the Sidecar makes wait for pods to
// become available.
func (s State) updatesWait() bool {
	plain := func(u Update) bool { return owner(u.Pod) == "" }
	behind, _ := s.behind()
	return slices.ContainsFunc(behind, plain) && !slices.ContainsFunc(Updates(s), plain)
}

// behind returns the updates without the bound maxUnavailable, and how many more pods it
// allows to be unavailable.
func (s State) behind() (updates []Update, left int) {
	strategy := s.Sidecar.Spec.UpdateStrategy
	if strategy.Type == v1.UpdateOnRecreate || strategy.Paused || s.Sidecar.DeletionTimestamp != nil || !accepted(s.Sidecar) {
		return nil, 0
	}
	matched, unavailable := 0, 0
	for _, pod := range s.Pods {
		if !s.has(pod) {
			continue
		}
		matched++
		if !pod2.Available(pod) {
			unavailable++
		}
		if update, ok := s.update(pod); ok && !s.SparesNone[owner(pod)] {
			updates = append(updates, update)
		}
	}
	slices.SortStableFunc(updates, func(a, b Update) int { return cmp.Compare(readySince(a.Pod), readySince(b.Pod)) })
	updates = updates[:max(len(updates)-int(strategy.Partition), 0)]
	return updates, maxUnavailable(strategy.MaxUnavailable, matched) - unavailable
}

// readySince is 0 for a pod that is not available.
func readySince(pod *corev1.Pod) int64 {
	if !pod2.Available(pod) {
		return 0
	}
	return attachment.Condition(pod, corev1.PodReady).LastTransitionTime.UnixNano()
}

// maxUnavailable is at least 1, because otherwise no update could proceed.
func maxUnavailable(bound *intstr.IntOrString, pods int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(bound, intstr.FromInt32(1))), pods, false)
	if err != nil { // the schema refuses such text
		return 1
	}
	return max(n, 1)
}

// has says whether a pod has the Sidecar and counts. A pod that is older than the Sidecar
// has one that had the same name before.
func (s State) has(pod *corev1.Pod) bool {
	_, has := Generations(pod)[s.Sidecar.Name]
	return has && pod.DeletionTimestamp == nil && !attachment.Over(pod) && !pod.CreationTimestamp.Before(&s.Sidecar.CreationTimestamp)
}

// update returns the update of a pod with an earlier generation, if images are all that
// differs.
func (s State) update(pod *corev1.Pod) (Update, bool) {
	in, generation := s.Sidecar.Status.Injected, Generations(pod)[s.Sidecar.Name]
	if generation >= in.Generation || generation < in.InPlaceFrom {
		return Update{}, false
	}
	update := Update{pod, pod2.SidecarUpdate{Name: s.Sidecar.Name, Images: images(in.Spec), Sidecars: withGeneration(pod, s.Sidecar.Name, in.Generation)}}
	for name := range update.Images {
		if pod2.ImageOf(pod, name) == "" {
			return Update{}, false
		}
	}
	return update, true
}

// running returns the containers that run as long as the pod.
func running(spec *v1.SidecarSpec) []*corev1.Container {
	var all []*corev1.Container
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}

func images(spec v1.SidecarSpec) map[string]string {
	images := map[string]string{}
	for _, c := range running(&spec) {
		images[c.Name] = c.Image
	}
	return images
}

// samePods says whether two specs give pods the same.
func samePods(a, b v1.SidecarSpec) bool {
	for _, spec := range []*v1.SidecarSpec{&a, &b} {
		spec.WhenNotReady, spec.UpdateStrategy = "", v1.SidecarUpdateStrategy{}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// sameButImages says whether a pod with one spec needs other images only to be one with
// the other. The default of imagePullPolicy depends on the image, and is set once.
func sameButImages(a, b v1.SidecarSpec) bool {
	bare := func(spec v1.SidecarSpec) v1.SidecarSpec {
		spec = *spec.DeepCopy()
		spec.Selector = nil
		for _, c := range running(&spec) {
			c.ImagePullPolicy = cmp.Or(c.ImagePullPolicy, pod2.PullPolicy(c.Image))
			c.Image = ""
		}
		return spec
	}
	return samePods(bare(a), bare(b))
}

// withGeneration returns the annotation of a pod, with another generation of a Sidecar.
func withGeneration(pod *corev1.Pod, name string, generation int64) string {
	elements := strings.Split(pod.Annotations[v1.SidecarsAnnotation], ",")
	for i, element := range elements {
		if rest, is := strings.CutPrefix(element, name+"="); is {
			_, counts, _ := strings.Cut(rest, "/")
			elements[i] = fmt.Sprintf("%s=%d/%s", name, generation, counts)
		}
	}
	return strings.Join(elements, ",")
}

// owner returns the Pod2 that controls a pod, "" if none does.
func owner(pod *corev1.Pod) string {
	if ref := metav1.GetControllerOfNoCopy(pod); pod2.IsOwner(ref) {
		return ref.Name
	}
	return ""
}
