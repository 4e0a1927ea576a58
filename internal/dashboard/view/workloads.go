package view

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// Pod2 is a row of the list of Pod2s. The numbers are those of its status.
type Pod2 struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	Desired    int32       `json:"desired"`
	Replicas   int32       `json:"replicas"`
	Ready      int32       `json:"ready"`
	Updated    int32       `json:"updated"`
	Available  int32       `json:"available"`
	Current    string      `json:"current,omitempty"`
	Update     string      `json:"update,omitempty"`
	Strategy   string      `json:"strategy"`
	Partition  int32       `json:"partition,omitempty"`
	Start      int32       `json:"start,omitempty"`    // of the ordinals
	Reserved   []int32     `json:"reserved,omitempty"` // ordinals that no replica has
	Surge      string      `json:"surge,omitempty"`
	Paused     bool        `json:"paused,omitempty"`
	Networks   []string    `json:"networks,omitempty"`
	Deleting   bool        `json:"deleting,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Pod is a pod with addresses, or one that waits for them.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Node      string `json:"node,omitempty"`
	Phase     string `json:"phase"`
	Ready     bool   `json:"ready,omitempty"`
	Deleting  bool   `json:"deleting,omitempty"`
	// Pod2 and Ordinal are of a replica.
	Pod2    string `json:"pod2,omitempty"`
	Ordinal string `json:"ordinal,omitempty"`
	// Template is the hash of the template from which the replica was created, or to which it was updated.
	Template string `json:"template,omitempty"`
	// InPlace says that an update in place changed the replica.
	InPlace  bool     `json:"inPlace,omitempty"`
	Networks []string `json:"networks,omitempty"`
	MACs     []string `json:"macs,omitempty"`
	Created  int64    `json:"created"`
	// Waits says why the pod does not run: the condition of its addresses, or of its start.
	Waits *Condition `json:"waits,omitempty"`
}

// CronTab is a row of the list of CronTabs.
type CronTab struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	Schedule   string      `json:"schedule"`
	TimeZone   string      `json:"timeZone,omitempty"`
	Suspended  bool        `json:"suspended,omitempty"`
	Active     int32       `json:"active"`
	Last       int64       `json:"last,omitempty"`
	Next       int64       `json:"next,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// OfPod2 returns the record of a Pod2.
func OfPod2(p *v1.Pod2) []Record {
	strategy := p.Spec.UpdateStrategy
	record := Pod2{
		Namespace: p.Namespace, Name: p.Name, Desired: ptr.Deref(p.Spec.Replicas, 1), Replicas: p.Status.Replicas, Ready: p.Status.ReadyReplicas,
		Updated: p.Status.UpdatedReplicas, Available: p.Status.AvailableReplicas, Current: p.Status.CurrentRevision, Update: p.Status.UpdateRevision,
		Strategy: cmp.Or(string(strategy.Type), string(v1.RollingUpdate)), Paused: p.Spec.Paused, Deleting: p.DeletionTimestamp != nil, Conditions: conditions(p.Status.Conditions),
		Reserved: p.Spec.ReserveOrdinals,
	}
	if o := p.Spec.Ordinals; o != nil {
		record.Start = o.Start
	}
	if r := strategy.RollingUpdate; r != nil {
		record.Partition = r.Partition
		if r.MaxSurge != nil {
			record.Surge = r.MaxSurge.String()
		}
	}
	for _, n := range p.Spec.Networks {
		record.Networks = append(record.Networks, n.Name)
	}
	return one("pod2s", p, record)
}

// OfPod returns the record of a pod, without its containers.
func OfPod(pod *corev1.Pod) []Record {
	record := Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, Phase: string(pod.Status.Phase), Ready: attachment.Ready(pod),
		Deleting: pod.DeletionTimestamp != nil, Pod2: pod.Labels[v1.Pod2Label], Ordinal: pod.Labels[v1.PodIndexLabel], Template: pod.Labels[v1.PodTemplateHashLabel],
		InPlace: pod.Annotations[v1.InPlaceAnnotation] != "", Networks: attachment.RequestedNetworks(pod.Annotations), Created: pod.CreationTimestamp.Unix(), Waits: waits(pod),
	}
	for _, address := range attachment.Published(pod) {
		record.MACs = append(record.MACs, address.MAC)
	}
	slices.Sort(record.MACs)
	return one("pods", pod, record)
}

// waits returns the first condition that keeps a pod from running.
func waits(pod *corev1.Pod) *Condition {
	if attachment.Over(pod) || attachment.Ready(pod) {
		return nil
	}
	for _, kind := range []corev1.PodConditionType{v1.ConditionAddressesBound, corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.ContainersReady, corev1.PodReady} {
		if c := attachment.Condition(pod, kind); c != nil && c.Status != corev1.ConditionTrue {
			return &Condition{strings.TrimPrefix(string(c.Type), v1.GroupName+"/"), string(c.Status), c.Reason, c.Message, seconds(c.LastTransitionTime)}
		}
	}
	return nil
}

// OfCronTab returns the record of a CronTab.
func OfCronTab(c *stablev1.CronTab) []Record {
	record := CronTab{
		Namespace: c.Namespace, Name: c.Name, Schedule: c.Spec.CronSpec, TimeZone: ptr.Deref(c.Spec.TimeZone, ""), Suspended: ptr.Deref(c.Spec.Suspend, false),
		Active: c.Status.Active, Conditions: conditions(c.Status.Conditions),
	}
	if c.Status.LastScheduleTime != nil {
		record.Last = seconds(*c.Status.LastScheduleTime)
	}
	if c.Status.NextScheduleTime != nil {
		record.Next = seconds(*c.Status.NextScheduleTime)
	}
	return one("crontabs", c, record)
}
