package dns

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
)

// Plan lists the writes, in the order in which apply makes them.
type Plan struct {
	// Withdraw slices beside a Service that is not fit for them, BEFORE everything, even
	// if the rest is stopped. The result of a live read of pods does not change that.
	// Preconditions: UID and resourceVersion.
	Withdraw []plan.Deletion
	// ConfirmGone, BEFORE all else: pods that slices name and the view does not have. A
	// live read must show that they have terminated. The watch selects pods by a label,
	// so a live pod without that label would otherwise lose its DNS names.
	ConfirmGone []network.PodRef
	// DeleteSlices, BEFORE DeleteServices. Preconditions: UID and resourceVersion.
	DeleteSlices   []plan.Deletion
	DeleteServices []plan.Deletion
	// Services that the Pod2 wants and that must change, in name order. If one of them
	// fails, apply continues with the next.
	Services []ServiceWrites
	// Status, AFTER everything, with the condition v1.ConditionDNSPublished; nil if it is
	// already written. It reports the state after the plan. Precondition:
	// resourceVersion, because other writers own the rest of the status.
	Status *v1.Pod2Status
	// Events follow the status, and only if it changes.
	Events []plan.Event
}

// ServiceWrites are the writes to a Service, which come first, and to its slices. At most
// one of Create and Update is set, and no slice is created together with Create.
// Preconditions: a fixed name to create, resourceVersion to update.
type ServiceWrites struct {
	Create       *corev1.Service
	Update       *plan.Update[*corev1.Service]
	CreateSlices []*discoveryv1.EndpointSlice
	UpdateSlices []plan.Update[*discoveryv1.EndpointSlice]
}

// Empty reports whether there is nothing to write; events follow writes, and a read
// precedes them.
func (p Plan) Empty() bool { return !p.WritesNames() && p.Status == nil }

// WritesNames reports whether there are writes to Services or slices.
func (p Plan) WritesNames() bool {
	return len(p.Withdraw) > 0 || len(p.DeleteSlices) > 0 || len(p.DeleteServices) > 0 || len(p.Services) > 0
}

// WritesSlices reports whether slices change because replicas are added, changed or
// removed.
func (p Plan) WritesSlices() bool {
	return len(p.DeleteSlices) > 0 || slices.ContainsFunc(p.Services, func(w ServiceWrites) bool {
		return len(w.CreateSlices) > 0 || len(w.UpdateSlices) > 0
	})
}

// NeedsOwner reports whether the plan creates or adopts something for the Pod2, which
// would be garbage without it. BEFORE such a write, a live read must show that the Pod2
// exists.
func (p Plan) NeedsOwner() bool {
	return slices.ContainsFunc(p.Services, func(w ServiceWrites) bool {
		return w.Create != nil || len(w.CreateSlices) > 0 || w.Update != nil && w.Update.Adopts() ||
			slices.ContainsFunc(w.UpdateSlices, plan.Update[*discoveryv1.EndpointSlice].Adopts)
	})
}

func (w ServiceWrites) empty() bool {
	return w.Create == nil && w.Update == nil && len(w.CreateSlices) == 0 && len(w.UpdateSlices) == 0
}

// String has one action a line, in the order in which they are written.
func (p Plan) String() string {
	var b strings.Builder
	for _, d := range p.Withdraw {
		fmt.Fprintf(&b, "withdraw slice %s\n", d)
	}
	for _, ref := range p.ConfirmGone {
		fmt.Fprintf(&b, "confirm %s is gone\n", ref)
	}
	for _, d := range p.DeleteSlices {
		fmt.Fprintf(&b, "delete slice %s\n", d)
	}
	for _, d := range p.DeleteServices {
		fmt.Fprintf(&b, "delete Service %s\n", d)
	}
	for _, w := range p.Services {
		if w.Create != nil {
			fmt.Fprintf(&b, "create Service %s\n", w.Create.Name)
		}
		if u := w.Update; u != nil {
			fmt.Fprintf(&b, "update Service %s\n", u)
		}
		for _, slice := range w.CreateSlices {
			fmt.Fprintf(&b, "create slice %s: %s\n", slice.Name, endpointsDiffer(nil, slice.Endpoints))
		}
		for _, u := range w.UpdateSlices {
			fmt.Fprintf(&b, "update slice %s\n", u)
		}
	}
	if p.Status != nil {
		fmt.Fprintf(&b, "status %s\n", conditionText(p.Status))
	}
	return b.String() + plan.Tail(p.Events, 0)
}
