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

// Plan is what is to be written; the fields stand in the order in which they are
// written.
type Plan struct {
	// Withdraw slices, BEFORE everything, and whatever stops the rest: those beside a
	// Service that is not fit for them. What a live read says of pods changes nothing of
	// that. Preconditions: UID and resourceVersion.
	Withdraw []plan.Deletion
	// ConfirmGone, BEFORE all else: pods that slices name and the view does not
	// have. A live read must say that they are over, or their names would go while
	// they live, for want of a label on which our watch selects.
	ConfirmGone []network.PodRef
	// DeleteSlices, BEFORE DeleteServices. Preconditions: UID and resourceVersion.
	DeleteSlices   []plan.Deletion
	DeleteServices []plan.Deletion
	// Services that the Pod2 wants and that are not as they shall be, in name
	// order. What stops one of them does not stop the next.
	Services []ServiceWrites
	// Status, AFTER everything, with the condition v1.ConditionNetworkDNS; nil when
	// it stands as it is. It tells what will be when the plan is carried out.
	// Precondition: resourceVersion, for what else the status says is not ours.
	Status *v1.Pod2Status
	// Events follow the status, and only a change of it.
	Events []plan.Event
}

// ServiceWrites are the writes to a Service, which come first, and to its slices.
// At most one of Create and Update is set, and no slice is created with Create.
// Preconditions: a create has a fixed name, an update a resourceVersion.
type ServiceWrites struct {
	Create       *corev1.Service
	Update       *plan.Update[*corev1.Service]
	CreateSlices []*discoveryv1.EndpointSlice
	UpdateSlices []plan.Update[*discoveryv1.EndpointSlice]
}

// Empty says that nothing is to be written; events follow writes, and a read goes
// before a write.
func (p Plan) Empty() bool { return !p.WritesNames() && p.Status == nil }

// WritesNames says that Services or slices are to be written.
func (p Plan) WritesNames() bool {
	return len(p.Withdraw) > 0 || len(p.DeleteSlices) > 0 || len(p.DeleteServices) > 0 || len(p.Services) > 0
}

// WritesSlices says that slices are to be written because replicas come, change or go.
func (p Plan) WritesSlices() bool {
	return len(p.DeleteSlices) > 0 || slices.ContainsFunc(p.Services, func(w ServiceWrites) bool {
		return len(w.CreateSlices) > 0 || len(w.UpdateSlices) > 0
	})
}

// NeedsOwner says that something is created for the Pod2 or adopted, and would be
// collected as garbage were it gone: BEFORE it, a live read must say that it is.
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
