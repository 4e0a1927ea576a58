package pod2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// created counts pods: each has its own UID. adopted counts others.
var created, adopted int

// apply applies a plan to the state like the API server, and returns the writes that it
// refuses.
func apply(s *State, p Plan) error {
	if p.Backoff != nil {
		s.Pod2.Annotations = map[string]string{v1.BackoffAnnotation: p.Backoff.Value}
		if p.Backoff.Value == "" {
			s.Pod2.Annotations = nil
		}
	}
	if r := p.CreateRevision; r != nil {
		if slices.ContainsFunc(s.Revisions, func(o *appsv1.ControllerRevision) bool { return o.Name == r.Name }) {
			return fmt.Errorf("create revision %s: already exists", r.Name)
		}
		created++
		r = r.DeepCopy()
		r.UID = types.UID(fmt.Sprintf("u%d", created))
		s.Revisions = append(slices.Clone(s.Revisions), r)
	}
	for _, r := range p.ChangeRevisions {
		i := slices.IndexFunc(s.Revisions, func(o *appsv1.ControllerRevision) bool { return o.Name == r.Name })
		s.Revisions = slices.Clone(s.Revisions)
		s.Revisions[i] = r
	}
	for _, d := range p.DeleteRevisions {
		s.Revisions = slices.DeleteFunc(slices.Clone(s.Revisions), func(o *appsv1.ControllerRevision) bool { return o.UID == d.UID })
	}
	for _, a := range p.Adopt {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == a.Name && pod.UID == a.UID })
		if i < 0 || metav1.GetControllerOf(s.Pods[i]) != nil {
			return fmt.Errorf("adopt %s (uid %s): no such pod, or it has a controller", a.Name, a.UID)
		}
		s.Pods[i] = s.Pods[i].DeepCopy()
		s.Pods[i].OwnerReferences = append(s.Pods[i].OwnerReferences, a.Owner)
		if s.Pods[i].Labels == nil { // someone removed them all
			s.Pods[i].Labels = map[string]string{}
		}
		if s.Pods[i].Annotations == nil {
			s.Pods[i].Annotations = map[string]string{}
		}
		maps.Copy(s.Pods[i].Labels, a.Labels)
		if a.Request != nil {
			s.Pods[i].Annotations[v1.Pod2RequestAnnotation] = *a.Request
		}
		adopted++
	}
	if err := applyLabels(s, p); err != nil {
		return err
	}
	if err := applyInPlace(s, p); err != nil {
		return err
	}
	for _, d := range p.Delete {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == d.Name && pod.UID == d.UID })
		switch {
		case i < 0:
			return fmt.Errorf("delete %s (uid %s): no such pod", d.Name, d.UID)
		case s.Pods[i].DeletionTimestamp != nil:
			return fmt.Errorf("delete %s: deleted already", d.Name)
		}
		s.Pods[i] = s.Pods[i].DeepCopy()
		s.Pods[i].DeletionTimestamp = ptr.To(metav1.NewTime(s.Now))
	}
	if err := applyClaims(s, p); err != nil {
		return err
	}
	for _, c := range p.Create {
		for _, claim := range c.Claims() {
			if err := createClaim(s, claim); err != nil {
				return err
			}
		}
		i, exists := slices.BinarySearchFunc(s.Pods, c.Name, func(pod *corev1.Pod, name string) int { return cmp.Compare(pod.Name, name) })
		if exists {
			return fmt.Errorf("create %s: already exists", c.Name)
		}
		created++
		pod := c.Pod()
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("u%d", created)), metav1.NewTime(s.Now)
		pod.Status.Phase = corev1.PodPending
		s.Pods = slices.Insert(slices.Clone(s.Pods), i, pod)
	}
	if p.Status != nil {
		s.Pod2.Status = *p.Status
	}
	return nil
}

// applyInPlace changes running pods; the kubelet is yet to act.
func applyInPlace(s *State, p Plan) error {
	change := func(name string, uid types.UID, version string, what func(*corev1.Pod)) error {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool {
			return pod.Name == name && pod.UID == uid && pod.ResourceVersion == version
		})
		if i < 0 {
			return fmt.Errorf("change %s (uid %s) at %s: no such pod", name, uid, version)
		}
		s.Pods = slices.Clone(s.Pods)
		s.Pods[i] = s.Pods[i].DeepCopy()
		what(s.Pods[i])
		return nil
	}
	for _, r := range p.Resize {
		err := change(r.Name, r.UID, r.ResourceVersion, func(pod *corev1.Pod) {
			pod.Generation++
			if r.Annotation != "" {
				pod.Annotations = maps.Clone(pod.Annotations)
				if pod.Annotations == nil {
					pod.Annotations = map[string]string{}
				}
				pod.Annotations[v1.InPlaceAnnotation] = r.Annotation
			}
			for i := range pod.Spec.Containers {
				if resources, ok := r.Resources[pod.Spec.Containers[i].Name]; ok {
					pod.Spec.Containers[i].Resources = *resources.DeepCopy()
				}
			}
		})
		if err != nil {
			return err
		}
	}
	for _, u := range p.InPlace {
		err := change(u.Name, u.UID, u.ResourceVersion, func(pod *corev1.Pod) {
			for i := range pod.Spec.Containers {
				if image, ok := u.Images[pod.Spec.Containers[i].Name]; ok {
					pod.Spec.Containers[i].Image = image
				}
			}
			setLabels(pod, u.Labels, u.Given)
			pod.Annotations = maps.Clone(pod.Annotations)
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[v1.InPlaceAnnotation] = u.Annotation
		})
		if err != nil {
			return err
		}
	}
	return nil
}
