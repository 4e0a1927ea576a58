package addressslice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// ReasonFailedWrite is the reason of an event about a write that the API server refused.
const ReasonFailedWrite = "FailedWrite"

// Plan has the writes to make, in the order of its fields.
type Plan struct {
	// Delete slices that are empty, or not of this Network. Preconditions: UID and
	// resourceVersion.
	Delete []plan.Deletion
	// Update slices, BEFORE others are created: the changes of running pods come first.
	// Precondition: resourceVersion.
	Update []plan.Update[*v1.AddressSlice]
	// Create slices. Precondition: their fixed names.
	Create []*v1.AddressSlice
	// Confirm: first a live read must find the Network, or find it gone if the State has none.
	// The garbage collector deletes slices of a Network that is gone, and the view may be older
	// than a new Network with this name.
	Confirm bool
	// Gathers is true if slices keep addresses that nobody has any more. They are removed
	// with later changes of the slice, or when State.RemovalsHeld has passed, after RequeueAfter.
	Gathers      bool
	RequeueAfter time.Duration
}

// Empty says whether there is nothing to write.
func (p Plan) Empty() bool { return len(p.Delete)+len(p.Update)+len(p.Create) == 0 }

// String has one action a line, in the order of the writes.
func (p Plan) String() string {
	var b strings.Builder
	if p.Confirm {
		b.WriteString("confirm the Network\n")
	}
	for _, d := range p.Delete {
		fmt.Fprintf(&b, "delete AddressSlice %s\n", d)
	}
	for _, u := range p.Update {
		fmt.Fprintf(&b, "update AddressSlice %s\n%s", u, content(u.Object))
	}
	for _, c := range p.Create {
		fmt.Fprintf(&b, "create AddressSlice %s\n%s", c.Name, content(c))
	}
	return b.String() + plan.Tail(nil, p.RequeueAfter)
}

func content(s *v1.AddressSlice) string {
	var b strings.Builder
	if o := s.Spec.Overlay; o != nil {
		mtu := "default"
		if o.MTU != nil {
			mtu = fmt.Sprint(*o.MTU)
		}
		fmt.Fprintf(&b, "  vni %d cidr %s gateway %s egress %s mtu %s\n", o.VNI, o.CIDR, o.Gateway, o.Egress, mtu)
	}
	for _, address := range slices.Sorted(maps.Keys(s.Spec.Locations)) {
		fmt.Fprintf(&b, "  %s on %s\n", address, s.Spec.Locations[address])
	}
	return b.String()
}
