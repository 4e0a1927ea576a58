package network

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of the conditions of a Network.
const (
	ReasonServing            = "Serving"
	ReasonInvalidSpec        = "InvalidSpec"
	ReasonNoAddresses        = "NoAddresses"
	ReasonInUse              = "InUse"
	ReasonTerminating        = "Terminating"
	ReasonAddressesAvailable = "AddressesAvailable"
	ReasonFailedWrite        = "FailedWrite"
)

// namesShown limits the names in a message: a person must be able to read it, and a
// condition holds 32 KiB.
const namesShown = 5

// status returns the status of the Network after the plan, or nil if it does not change. It
// also returns the events for the change.
func (v *view) status(exhausted []string) (*v1.NetworkStatus, []plan.Event) {
	if v.network == nil {
		return nil, nil
	}
	status := v.network.Status.DeepCopy()
	status.ObservedGeneration = v.network.Generation
	v.attachment.Tell(status)
	status.Gateway, status.CIDRs = gatewayText(v.network), texts(v.cidrs)
	v.count(status)
	ready := v.ready(status.Bound)
	conditions := []metav1.Condition{ready, v.addressesAvailable(exhausted, ready)}
	if grown, ever := v.grown(); ever {
		conditions = append(conditions, grown)
	}
	for _, c := range conditions {
		plan.SetCondition(&status.Conditions, c.Type, v.network.Generation, v.now.Time, c)
	}
	if plan.Changed(status, v.network.Status) == nil {
		return nil, nil
	}
	return status, statusEvents(v.network.Status.Conditions, status.Conditions)
}

// statusMayWait says whether the new status differs from the current one in numbers only.
// While many pods are created or deleted, such numbers are out of date before anyone reads
// them.
func (p Plan) statusMayWait(s State) bool {
	return p.Status != nil && len(p.Events) == 0 &&
		equality.Semantic.DeepEqual(withoutNumbers(*p.Status), withoutNumbers(s.Network.Status))
}

func withoutNumbers(status v1.NetworkStatus) v1.NetworkStatus {
	status.Bound, status.Reserved, status.Resting, status.Available = 0, 0, 0, 0
	status.Conditions = plan.WithoutMessages(status.Conditions)
	return status
}

// Observed returns the status to write if the plan failed, or nil if it does not change. The
// counters are the observed ones. Ready is False with the failure, unless that is "". The
// condition about waiting pods keeps its old value.
func Observed(s State, failure string) *v1.NetworkStatus {
	v, _ := newView(s)
	status := s.Network.Status.DeepCopy()
	status.ObservedGeneration = s.Network.Generation
	v.attachment.Tell(status)
	status.Gateway, status.CIDRs = gatewayText(s.Network), texts(v.cidrs)
	v.count(status)
	ready := v.ready(status.Bound)
	if failure != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, ReasonFailedWrite, failure
	}
	plan.SetCondition(&status.Conditions, v1.ConditionReady, s.Network.Generation, v.now.Time, ready)
	return plan.Changed(status, s.Network.Status)
}

// manyAddresses is the largest count in the status. The 19 digits of an IPv6 /64 would
// push the other columns of kubectl get aside, and JavaScript and jq round numbers from
// 2^53 on. No IPv4 Network has as many.
const manyAddresses = math.MaxInt32

// count derives the counters from the working copy. Entries outside the pool (excluded while
// in use) do not reduce the available addresses. Nor do those that reclaim gives to a pod if
// no other address is free.
func (v *view) count(status *v1.NetworkStatus) {
	c := v.tally()
	status.Bound, status.Reserved, status.Resting = c.bound, c.reserved, c.resting
	if v.poolErr != nil {
		status.Capacity, status.Available = 0, 0
		return
	}
	status.Capacity = min(v.pool.Capacity(), manyAddresses)
	status.Available = min(max(v.pool.ForAny()-(c.taken-c.left)-c.former, 0), manyAddresses)
	if terminating(v.network) || v.refuses {
		status.Available = 0
	}
}

func (v *view) ready(bound int64) metav1.Condition {
	c := metav1.Condition{Type: v1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case terminating(v.network) && bound > 0:
		c.Reason = ReasonInUse
		c.Message = fmt.Sprintf("being deleted; waiting for the pods that hold its addresses: %s", names(v.boundPods()))
	case terminating(v.network):
		c.Reason, c.Message = ReasonTerminating, "being deleted"
	case v.poolErr != nil:
		c.Reason, c.Message = ReasonInvalidSpec, v.poolErr.Error()
	case v.refuses:
		c.Reason, c.Message = ReasonOverlapsCluster, v.overlapText()
	case v.leavesNone() != "":
		c.Reason, c.Message = ReasonNoAddresses, v.leavesNone()+"; pods keep the addresses that they hold"
	case v.overlap != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonOverlapsCluster, v.overlapText()
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonServing, "hands out addresses"
		if outside := v.outside(); len(outside) > 0 {
			c.Message += fmt.Sprintf("; these ranges of spec.exclude and spec.onRequest are outside %s and have no effect: %s", v.cidr, names(outside))
		}
	}
	return c
}

func (v *view) boundPods() []string {
	var pods []string
	for _, p := range v.ledger.pages {
		for i := range p.entries {
			if p.ours && p.entries[i].State == v1.AddressBound {
				pods = append(pods, p.entries[i].Pod)
			}
		}
	}
	return pods
}

// addressesAvailable is the condition about pods that only need more addresses. Other pods may
// wait too: for an address that they ask for, or for a Network that serves no pod.
func (v *view) addressesAvailable(waiting []string, ready metav1.Condition) metav1.Condition {
	c := metav1.Condition{Type: v1.ConditionAddressesAvailable, Status: metav1.ConditionUnknown}
	switch {
	case len(waiting) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNetworkExhausted
		c.Message = fmt.Sprintf("no address is free for: %s%s", names(waiting), v.shortage("spec.cidr"))
	case ready.Status != metav1.ConditionTrue:
		c.Reason, c.Message = ready.Reason, "no new pod gets an address; see condition Ready"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonAddressesAvailable, "no pod waits for a free address"
	}
	return c
}

// names lists the first few names and the number of the others.
func names(all []string) string {
	if len(all) <= namesShown {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:namesShown], ", "), len(all)-namesShown)
}

// statusEvents returns an event when pods begin to wait or the spec becomes unusable. It
// also returns one when a Network in use is deleted, or begins to overlap the cluster.
func statusEvents(before, after []metav1.Condition) []plan.Event {
	var events []plan.Event
	turned := func(kind string, to metav1.ConditionStatus) *metav1.Condition {
		c := meta.FindStatusCondition(after, kind)
		if c == nil || c.Status != to || meta.IsStatusConditionPresentAndEqual(before, kind, to) {
			return nil
		}
		return c
	}
	if c := turned(v1.ConditionAddressesAvailable, metav1.ConditionFalse); c != nil {
		events = append(events, plan.Warning(c.Reason, c.Message))
	}
	if c := turned(v1.ConditionReady, metav1.ConditionFalse); c != nil && slices.Contains([]string{ReasonInvalidSpec, ReasonNoAddresses, ReasonInUse}, c.Reason) {
		events = append(events, plan.Warning(c.Reason, c.Message))
	}
	was, is := meta.FindStatusCondition(before, v1.ConditionReady), meta.FindStatusCondition(after, v1.ConditionReady)
	if is.Reason == ReasonOverlapsCluster && (was == nil || was.Reason != is.Reason) {
		events = append(events, plan.Warning(is.Reason, is.Message))
	}
	if c := turned(v1.ConditionGrown, metav1.ConditionFalse); c != nil {
		events = append(events, plan.Warning(c.Reason, c.Message))
	}
	return events
}

// ReasonAddressReassigned is the reason of the event about addresses that were reserved for a
// replica and that another pod now has.
const ReasonAddressReassigned = "AddressReassigned"

// reassigned returns one event for all of them.
func (v *view) reassigned() []plan.Event {
	var given []string
	for _, p := range v.ledger.pages {
		if p.quiet { // it reserved nothing
			continue
		}
		for was, is := range p.changed() {
			if was != nil && is != nil && was.State == v1.AddressReserved && is.State == v1.AddressBound && is.Pod != was.Pod &&
				!v.owners[was.Owner].hasOrdinal(was.Owner, was.Pod) {
				given = append(given, fmt.Sprintf("%s from scaled-down replica %s to pod %s", was.Address, was.Pod, is.Pod))
			}
		}
	}
	if len(given) == 0 {
		return nil
	}
	return []plan.Event{plan.Warning(ReasonAddressReassigned, "reassigned "+names(given))}
}

// podEvents limits how many pods that wait for one reason at a time get an event. A workload
// with thousands of waiting pods need not cause thousands of events.
const podEvents = 10

// withEvents marks the pods whose reason to wait is new. If more than podEvents pods wait
// for the same reason, it leaves out the rest.
func withEvents(waits []Wait, pods []*corev1.Pod) []Wait {
	before, waiting := map[string]string{}, map[string]int{}
	for _, pod := range pods {
		if c := boundCondition(pod); c != nil && c.Status == corev1.ConditionFalse && !attachment.Over(pod) {
			before[pod.Name] = c.Reason
			waiting[c.Reason]++
		}
	}
	for i := range waits {
		if reason := waits[i].Condition.Reason; before[waits[i].Pod.Name] != reason {
			waits[i].Event = waiting[reason] < podEvents
			waiting[reason]++
		}
	}
	return waits
}

// addressesBound returns the condition of a pod, and whether it is new.
func addressesBound(pod *corev1.Pod, status corev1.ConditionStatus, reason, message string, now metav1.Time) (corev1.PodCondition, bool) {
	c := corev1.PodCondition{Type: v1.ConditionAddressesBound, Status: status, Reason: reason, Message: message, LastTransitionTime: now}
	old := boundCondition(pod)
	if old == nil {
		return c, true
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c, old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message
}

// SaysItWaits says whether the condition of a pod says that the pod waits. Such a
// condition may need a correction.
func SaysItWaits(pod *corev1.Pod) bool {
	c := boundCondition(pod)
	return c != nil && c.Status != corev1.ConditionTrue
}

func boundCondition(pod *corev1.Pod) *corev1.PodCondition {
	return attachment.Condition(pod, v1.ConditionAddressesBound)
}
