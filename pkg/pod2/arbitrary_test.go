package pod2

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/test/chance"
)

// arbitrary returns a state that the controller need not be able to reach. Half of the
// states are calm: most of their pods are healthy.
func arbitrary(dice *rand.Rand) State {
	calm := chance.Pick(dice, 1, 8)
	s := State{Now: now, Pod2: arbitraryPod2(dice)}
	for _, n := range s.Pod2.Spec.Networks {
		if !chance.One(dice, 4) {
			network := &v1.Network{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
			if chance.One(dice, 2) {
				network.Status.Conditions = []metav1.Condition{{Type: v1.ConditionAddressesAvailable, Status: metav1.ConditionFalse, Message: "no address is free"}}
			}
			s.Networks = append(s.Networks, network)
		}
	}
	for _, address := range []string{"10.1.0.10", "10.1.0.11"} {
		if chance.One(dice, 4) {
			s.Holders = append(s.Holders, Holder{Network: "green", AddressEntry: v1.AddressEntry{
				Address: address, Pod: "web-1", Owner: v1.AddressOwner{Kind: "StatefulSet", Name: "web"}, State: chance.Pick(dice, v1.AddressBound, v1.AddressReserved),
			}})
		}
	}
	for _, name := range []string{
		"other", "web", "web-", "web--1", "web-0", "web-00", "web-01", "web-1", "web-10", "web-2", "web-2147483648", "web-3",
		"web-4", "web-4294967296", "web-5", "web-x", "web2-0",
	} {
		ordinary := len(name) == len("web-0") && name[4] <= '5'
		if ordinary && !chance.One(dice, 3) || !ordinary && chance.One(dice, 2*calm) {
			s.Pods = append(s.Pods, arbitraryPod(dice, s.Pod2, name, calm))
		}
	}
	arbitraryRevisions(dice, &s)
	for _, pod := range s.Pods {
		arbitraryContainers(dice, pod)
	}
	arbitraryBackoff(dice, &s)
	arbitraryClaims(dice, &s)
	for range dice.IntN(4) { // up to the writes of a few syncs
		if err := apply(&s, Diff(s)); err != nil {
			panic(err)
		}
	}
	if plan := Diff(s); chance.One(dice, 2) { // only pods are left to write
		if err := apply(&s, Plan{Backoff: plan.Backoff, Status: plan.Status}); err != nil {
			panic(err)
		}
	}
	return s
}

func arbitraryPod2(dice *rand.Rand) *v1.Pod2 {
	p := &v1.Pod2{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid, Generation: 3},
		Spec: v1.Pod2Spec{
			Replicas:        ptr.To(int32(dice.IntN(7))),
			MinReadySeconds: chance.Pick[int32](dice, 0, 0, 10),
			Template:        corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: chance.Pick(dice, "a", "b")}}}},
		},
		Status: v1.Pod2Status{CurrentRevision: chance.Pick(dice, "", "web-old"), ReadyReplicas: dice.Int32N(3), ObservedGeneration: dice.Int64N(4)},
	}
	if chance.One(dice, 3) {
		p.Spec.Ordinals = &v1.Pod2Ordinals{Start: dice.Int32N(4)}
	}
	if chance.One(dice, 2) {
		p.Spec.Networks = []v1.Pod2Network{{Name: "blue"}, {Name: "green", Addresses: []v1.Address{"10.1.0.10", "10.1.0.11"}}}[:1+dice.IntN(2)]
	}
	bound := func() *intstr.IntOrString {
		return chance.Pick(dice, nil, ptr.To(intstr.FromInt32(0)), ptr.To(intstr.FromInt32(2)), ptr.To(intstr.FromInt32(9)),
			ptr.To(intstr.FromString("50%")), ptr.To(intstr.FromString("100%")), ptr.To(intstr.FromString("x")))
	}
	switch dice.IntN(6) {
	case 0:
		p.Spec.UpdateStrategy.Type = v1.Recreate
	case 1:
		p.Spec.UpdateStrategy.Type = v1.OnDelete
	case 2, 3:
		p.Spec.UpdateStrategy.RollingUpdate = &v1.Pod2RollingUpdate{MaxUnavailable: bound(), MaxSurge: bound(), Partition: chance.Pick[int32](dice, 0, 0, 2, 99)}
	}
	if chance.One(dice, 6) {
		p.Spec.Paused = true
	}
	if chance.One(dice, 2) {
		p.Spec.UpdateStrategy.InPlace = chance.Pick(dice, v1.InPlaceNever, v1.InPlaceIfPossible)
	}
	if chance.One(dice, 4) {
		p.Spec.PodManagementPolicy = v1.OrderedReadyPodManagement
	}
	if chance.One(dice, 4) {
		p.Spec.ReserveOrdinals = []int32{dice.Int32N(5), dice.Int32N(9)}
	}
	if chance.One(dice, 2) {
		p.Spec.ProgressDeadlineSeconds = ptr.To(chance.Pick[int32](dice, 1, 60, aDay))
	}
	if chance.One(dice, 4) {
		p.Labels = map[string]string{"team": "x"}
	}
	if chance.One(dice, 20) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	return p
}

func arbitraryPod(dice *rand.Rand, p *v1.Pod2, name string, calm int) *corev1.Pod {
	past := func() metav1.Time {
		return metav1.NewTime(now.Add(-time.Duration(dice.IntN(chance.Pick(dice, 15, 1200))) * time.Second))
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("u-" + name), CreationTimestamp: past(),
			Labels: map[string]string{v1.PodTemplateHashLabel: RevisionHash(p)}, Annotations: map[string]string{},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if !chance.One(dice, 8*calm) {
		pod.Labels[v1.ManagedLabel], pod.Labels[v1.Pod2Label], pod.Labels[v1.PodIndexLabel] = "true", p.Name, strings.TrimPrefix(name, "web-")
	}
	if chance.One(dice, 8*calm) {
		pod.Labels["old"], pod.Annotations[v1.Pod2LabelsAnnotation] = "x", chance.Pick(dice, "", "{", "null", "{}", `{"old":"x"}`, `{"old":"y"}`)
	}
	owner := metav1.NewControllerRef(p, pod2Kind)
	if chance.One(dice, 2*calm) {
		pod.Status.Phase = chance.Pick(dice, "", corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded)
	}
	switch dice.IntN(10 * calm) {
	case 0:
		owner.UID = "u-earlier"
	case 1:
		owner.UID, owner.Kind = "u-other", "ReplicaSet"
	case 2:
		owner.Controller = nil
	}
	if !chance.One(dice, 5*calm) {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	if ordinal, ok := ordinals.Parse(p.Name, name); ok && (p.Spec.Ordinals == nil || ordinal >= p.Spec.Ordinals.Start) {
		pod.Annotations[v1.Pod2RequestAnnotation] = newRequests(p, ContentOf(p)).of(ordinal)
	}
	if chance.One(dice, 2) { // made from the template, except the gate
		pod.Labels[v1.Pod2Label], pod.Spec = chance.Pick(dice, p.Name, "other"), *p.Spec.Template.Spec.DeepCopy()
		pod.Spec.Hostname = name
		pod.Annotations[v1.NetworksAnnotation] = chance.Pick(dice, pod.Annotations[v1.Pod2RequestAnnotation], "green,blue")
		pod.Annotations[v1.AddressesAnnotation] = chance.Pick(dice, "", `{"blue":{"address":"10.0.0.2/24"}}`)
	}
	if chance.One(dice, 3) {
		pod.Labels[v1.PodTemplateHashLabel] = chance.Pick(dice, "old", "")
	}
	if chance.One(dice, 8*calm) {
		pod.Annotations[v1.Pod2RequestAnnotation] = chance.Pick(dice, "", "red")
	}
	if chance.One(dice, 6*calm) {
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	if chance.One(dice, 6*calm) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: chance.Pick(dice, v1.AddressesGate, "other")}}
	}
	if !chance.One(dice, 4*calm) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady,
			Status: corev1.ConditionTrue, LastTransitionTime: past()})
		if chance.One(dice, 3*calm) {
			pod.Status.Conditions[0].Status = chance.Pick(dice, corev1.ConditionFalse, corev1.ConditionUnknown)
		}
	}
	if chance.One(dice, 6*calm) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
	}
	return pod
}

// arbitraryContainers changes the containers of a running pod: as in the template or not,
// changed in place or not, resized or not.
func arbitraryContainers(dice *rand.Rand, pod *corev1.Pod) {
	image := chance.Pick(dice, "a", "b", "old")
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: image}}
	if chance.One(dice, 3) {
		return // their status is unknown
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: image, ContainerID: chance.Pick(dice, "id-1", "id-2"), Ready: true, Resources: &corev1.ResourceRequirements{}}}
	if chance.One(dice, 4) {
		pod.Annotations[v1.InPlaceAnnotation] = chance.Pick(dice, `{"containers":{"app":{"id":"id-1","image":"a"}}}`, `{"containers":{"app":{"id":"id-1","image":"old"}}}`,
			`{"containers":{"gone":{"id":"id-1"}}}`, `{"containers":{"app":"id-1"}}`, "{", "")
	}
}

// arbitraryRevisions may include the revision of the spec, older ones, one of an earlier
// Pod2, orphans, and one whose name is taken.
func arbitraryRevisions(dice *rand.Rand, s *State) {
	add := func(content Content, number int64, change func(*appsv1.ControllerRevision)) {
		p := s.Pod2.DeepCopy()
		p.Spec.Template, p.Spec.Networks = content.Template, nil
		r := readRevisions(State{Pod2: p}).create
		r.Revision, r.UID = number, types.UID(fmt.Sprint("u-revision-", number))
		change(r)
		if !slices.ContainsFunc(s.Revisions, func(o *appsv1.ControllerRevision) bool { return o.Name == r.Name }) {
			s.Revisions = append(s.Revisions, r)
		}
	}
	whose := func(r *appsv1.ControllerRevision) {
		switch dice.IntN(6) {
		case 0:
			r.OwnerReferences = nil
		case 1:
			r.OwnerReferences[0].UID = "u-earlier"
		}
	}
	for i, image := range []string{"a", "b", "c", "d"} {
		if chance.One(dice, 2) {
			content := ContentOf(s.Pod2)
			content.Template = *content.Template.DeepCopy()
			content.Template.Spec.Containers[0].Image = image
			add(content, int64(i)+dice.Int64N(3), whose)
		}
	}
	if chance.One(dice, 2) {
		content := ContentOf(s.Pod2)
		content.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "old"}}}}
		add(content, 9, func(r *appsv1.ControllerRevision) { r.Name, r.Labels[v1.PodTemplateHashLabel] = "web-old", "old" })
	}
	if chance.One(dice, 4) { // the name of the spec's revision has other content
		content := ContentOf(s.Pod2)
		name := "web-" + RevisionHash(s.Pod2)
		content.Template = corev1.PodTemplateSpec{}
		add(content, 1, func(r *appsv1.ControllerRevision) { r.Name = name; whose(r) })
	}
	if chance.One(dice, 2) {
		s.Pod2.Spec.RevisionHistoryLimit = ptr.To(dice.Int32N(3))
	}
}

func arbitraryBackoff(dice *rand.Rand, s *State) {
	records := map[string]failure{}
	for _, pod := range s.Pods {
		if chance.One(dice, 3) {
			records[pod.Name] = failure{
				UID: chance.Pick(dice, pod.UID, "u-before"), Failures: chance.Pick[int32](dice, -1, 0, 1, 2, 3, 6, 40, 1<<31-1),
				Since: metav1.NewTime(now.Add(time.Duration(dice.IntN(700)-600) * time.Second)),
			}
		}
	}
	text := ""
	for name, f := range records {
		text += fmt.Sprintf(",%q:{\"uid\":%q,\"failures\":%d,\"since\":%q}", name, f.UID, f.Failures, f.Since.Format(time.RFC3339))
	}
	if text != "" {
		text = "{" + text[1:] + "}"
	}
	text = chance.Pick(dice, text, text, text, "", "{", "null", "[]", `{"web-0":null}`, `{"web-0":{"failures":1e99}}`, `{"web-1":{"uid":"u-web-1","since":null}}`)
	if text != "" {
		s.Pod2.Annotations = map[string]string{v1.BackoffAnnotation: text}
	}
}
