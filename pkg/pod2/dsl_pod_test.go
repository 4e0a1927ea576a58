package pod2

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ordinals"
)

// pod parses a pod of the Pod2 from the words of state.
func pod(t testing.TB, p *v1.Pod2, line string) *corev1.Pod {
	t.Helper()
	words := strings.Fields(line)
	name := words[0]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("u-" + strings.TrimPrefix(name, "web-")),
			CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Labels:            map[string]string{v1.ManagedLabel: "true", v1.Pod2Label: "web", v1.PodTemplateHashLabel: RevisionHash(p)},
			Annotations:       map[string]string{},
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(p, pod2Kind)},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if ordinal, ok := ordinals.Parse("web", name); ok {
		pod.Labels[v1.PodIndexLabel] = strconv.Itoa(int(ordinal))
		start := int32(0)
		if p.Spec.Ordinals != nil {
			start = p.Spec.Ordinals.Start
		}
		if ordinal >= start {
			pod.Annotations[v1.Pod2RequestAnnotation] = newRequests(p, ContentOf(p)).of(ordinal)
		}
	}
	setCondition(pod, corev1.PodReady, corev1.ConditionTrue, "", "", now.Add(-time.Hour))
	app := p.Spec.Template.Spec.Containers[0]
	resources := app.Resources
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: app.Image, Resources: resources, ResizePolicy: app.ResizePolicy}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: "id-1", Ready: true, Resources: resources.DeepCopy()}}
	owner := &pod.OwnerReferences[0]
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		value = strings.ReplaceAll(value, "_", " ")
		switch key {
		case "old":
			pod.Labels[v1.PodTemplateHashLabel] = "old"
			pod.Spec.Containers[0].Image = oldImage(p)
		case "ready":
			setCondition(pod, corev1.PodReady, corev1.ConditionTrue, "", "", now.Add(-duration(t, value)))
		case "age":
			pod.CreationTimestamp = metav1.NewTime(now.Add(-duration(t, value)))
		case "notready":
			setCondition(pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", value, now)
		case "updating": // in place, from the container of that ID
			pod.Annotations[v1.InPlaceAnnotation] = fmt.Sprintf(`{"containers":{"app":{"id":%q,"image":"nginx:before"}}}`, value)
		case "image": // of the pod; the revision may have another
			pod.Spec.Containers[0].Image = value
		case "restarted":
			pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-duration(t, value)))}
		case "cpu": // <of the spec>/<of the status>
			spec, status, _ := strings.Cut(value, "/")
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(spec)}
			pod.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(status)}}
		case "resizing":
			pod.Annotations[v1.InPlaceAnnotation] = `{"containers":{},"resizing":true}`
		case "inprogress":
			setCondition(pod, corev1.PodResizeInProgress, corev1.ConditionTrue, "", "", now)
		case "resize":
			setCondition(pod, corev1.PodResizePending, corev1.ConditionTrue, value, "node has 1 cpu", now)
		case "waiting": // reason and message of a container
			reason, message, _ := strings.Cut(value, "/")
			setCondition(pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [app]", now)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		case "unschedulable":
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
			setCondition(pod, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, value, now)
		case "failed":
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: value}
		case "ended": // the kubelet left the conditions unchanged
			pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, value
		case "succeeded":
			pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
		case "terminating":
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "gated", "gate":
			gate := v1.AddressesGate
			if key == "gate" {
				gate = value
			}
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
		case "bound":
			setCondition(pod, v1.ConditionAddressesBound, corev1.ConditionFalse, "NetworkExhausted", value, now)
		case "request":
			pod.Annotations[v1.Pod2RequestAnnotation] = value
		case "label": // "key" is without it
			key, value, has := strings.Cut(value, ":")
			if delete(pod.Labels, key); has {
				pod.Labels[key] = value
			}
		case "given":
			pod.Annotations[v1.Pod2LabelsAnnotation] = value
		case "uid":
			pod.UID = types.UID(value)
		case "orphan":
			pod.OwnerReferences = nil
		case "bare", "foreign":
			pod.Labels, pod.Annotations = map[string]string{}, map[string]string{}
			pod.Spec.Containers[0].Image = "other:1"
			if key == "bare" {
				pod.OwnerReferences = nil
			}
		case "made":
			pod.Spec = *p.Spec.Template.Spec.DeepCopy()
			pod.Spec.Hostname, pod.Spec.Subdomain = name, p.Spec.ServiceName
		case "earlier":
			owner.UID = "u-earlier"
		case "of":
			owner.UID, owner.APIVersion = "u-other", "apps/v1"
			owner.Kind, owner.Name, _ = strings.Cut(value, "/")
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	return pod
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string, since time.Time) {
	c := corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(since)}
	if old := attachment.Condition(pod, kind); old != nil {
		*old = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
