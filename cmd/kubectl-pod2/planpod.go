package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/pod2"
)

// firstPod reports whether the API server accepts the first pod in a dry run. It is empty
// if the plan creates neither pods nor a revision. So the plan finds the causes that
// prevent pods: mistakes in the template, quota, Pod Security, admission, the service
// account.
func (s *session) firstPod(ctx context.Context, state pod2.State, plan pod2.Plan) string {
	creations, replaces := plan.Create, false
	if len(creations) == 0 && plan.CreateRevision != nil {
		// The first replica of the new revision replaces an existing one.
		empty := state
		empty.Pods = nil
		creations, replaces = pod2.Diff(empty).Create, true
	}
	if len(creations) == 0 {
		return ""
	}
	pod := creations[0].Pod()
	// The owner may not exist yet, and admission allows few users to set one.
	pod.OwnerReferences = nil
	made, err := s.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager,
	})
	text := "The first pod, in a server dry run with your rights and not the controller's:\n  " + pod.Name + " "
	switch {
	case err == nil:
		text += "would be created\n"
	case apierrors.IsAlreadyExists(err): // the API server's last check
		text += "would be accepted as the replacement of the existing pod\n"
	case replaces && overQuota(err):
		text += "exceeds a quota while the existing pod counts; the controller deletes that pod first: " + err.Error() + "\n"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource"):
		return text + "was not tried, because you may not create pods: " + err.Error() + "\n"
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsInternalError(err):
		return text + "would be refused: " + err.Error() + "\n"
	default: // the plan is still valid
		return text + "was not tried: " + err.Error() + "\n"
	}
	if made == nil || made.Name == "" {
		made = pod
	}
	return text + s.quotaText(ctx, state, made, creations[0].Claims())
}

func overQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// quotaText reports how many of the missing replicas fit into the quotas, if each uses as
// much as this pod and these PVCs.
func (s *session) quotaText(ctx context.Context, state pod2.State, pod *corev1.Pod, claims []*corev1.PersistentVolumeClaim) string {
	missing := int64(0)
	replicas := pod2.Ordinals(state.Pod2)
	for place := range replicas.Count() {
		name := ordinals.Name(state.Pod2.Name, replicas.At(place))
		if !slices.ContainsFunc(state.Pods, func(pod *corev1.Pod) bool { return pod.Name == name }) {
			missing++
		}
	}
	if missing == 0 {
		return ""
	}
	quotas, err := s.Kube.CoreV1().ResourceQuotas(pod.Namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return "  you may not list quotas: they may have no room for the other replicas\n"
	}
	if err != nil {
		return "  cannot list the quotas: " + err.Error() + "\n"
	}
	text := ""
	each := takenBy(pod, claims)
	for i := range quotas.Items {
		q := &quotas.Items[i]
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			text += fmt.Sprintf("  quota %s has scopes and is not checked\n", q.Name)
			continue
		}
		room, why := roomIn(q, each)
		if why != "" {
			text += fmt.Sprintf("  quota %s has room for %d of the %d replicas to be created (%s)\n", q.Name, min(room, missing), missing, why)
		}
	}
	return text
}

// roomIn returns how many pods fit into a quota, and the resource that allows the fewest.
// The resource is empty if the quota limits none that the pods use.
func roomIn(q *corev1.ResourceQuota, each corev1.ResourceList) (room int64, why string) {
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		takes, ok := each[name]
		if !ok || takes.IsZero() {
			continue
		}
		left := q.Status.Hard[name].DeepCopy()
		left.Sub(q.Status.Used[name])
		fits := max(0, int64(left.AsApproximateFloat64()/takes.AsApproximateFloat64()+1e-9))
		if why == "" || fits < room {
			room, why = fits, fmt.Sprintf("%s: %s left, %s each", name, left.String(), takes.String())
		}
	}
	return room, why
}

// takenBy is the usage of one replica that quotas count.
func takenBy(pod *corev1.Pod, claims []*corev1.PersistentVolumeClaim) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	all := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	for name, quantity := range total(pod, func(r corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }) {
		all["requests."+name] = quantity
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			all[name] = quantity
		}
	}
	for name, quantity := range total(pod, func(r corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }) {
		all["limits."+name] = quantity
	}
	if n := int64(len(claims)); n > 0 {
		count := *resource.NewQuantity(n, resource.DecimalSI)
		all[corev1.ResourcePersistentVolumeClaims], all["count/persistentvolumeclaims"] = count, count
		for _, claim := range claims {
			add(all, corev1.ResourceList{corev1.ResourceRequestsStorage: *claim.Spec.Resources.Requests.Storage()})
		}
	}
	return all
}

// total usage of a pod: the sum of its containers, or that of an init container while it
// runs if that is more.
func total(pod *corev1.Pod, of func(corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	sum, peak := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		init := &pod.Spec.InitContainers[i]
		if init.RestartPolicy != nil && *init.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sum, of(init.Resources)) // a sidecar keeps running
			continue
		}
		while := sum.DeepCopy()
		add(while, of(init.Resources))
		atLeast(peak, while)
	}
	for i := range pod.Spec.Containers {
		add(sum, of(pod.Spec.Containers[i].Resources))
	}
	atLeast(sum, peak)
	if pod.Spec.Resources != nil {
		for name, quantity := range of(*pod.Spec.Resources) {
			sum[name] = quantity
		}
	}
	for name, quantity := range pod.Spec.Overhead {
		if _, bounded := sum[name]; bounded {
			add(sum, corev1.ResourceList{name: quantity})
		}
	}
	return sum
}

func add(to, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := to[name]
		sum.Add(quantity)
		to[name] = sum
	}
}

func atLeast(list, least corev1.ResourceList) {
	for name, quantity := range least {
		if has := list[name]; has.Cmp(quantity) < 0 {
			list[name] = quantity
		}
	}
}
