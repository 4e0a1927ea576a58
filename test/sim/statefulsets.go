package sim

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/apiserver"
)

// stepStatefulSets creates the missing pods of StatefulSets and their PVCs, all at once.
func (s *Cluster) stepStatefulSets() {
	const by = "statefulset controller"
	for _, set := range apiserver.List[*appsv1.StatefulSet](s.Server, "statefulsets") {
		if set.DeletionTimestamp != nil {
			continue
		}
		for ordinal := range ptr.Deref(set.Spec.Replicas, 1) {
			pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
			pod.Name = fmt.Sprintf("%s-%d", set.Name, ordinal)
			pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			for _, template := range set.Spec.VolumeClaimTemplates {
				claim := template.DeepCopy()
				claim.Name = template.Name + "-" + pod.Name
				claim.Labels = maps.Clone(set.Spec.Selector.MatchLabels)
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
				}})
				_, _ = s.Create(by, apiserver.ResourceNamed("persistentvolumeclaims"), set.Namespace, claim) // fails if it exists
			}
			_, _ = s.Create(by, apiserver.ResourceNamed("pods"), set.Namespace, pod) // fails if it exists
		}
	}
}
