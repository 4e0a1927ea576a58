package history

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// ReasonFailedWrite is the reason of an event about a write that the API server refused.
const ReasonFailedWrite = "FailedWrite"

// Plan has the writes to make. While the Network exists, it has at most one.
type Plan struct {
	// Delete the oldest AddressHistory, or those that are not of this Network. Preconditions:
	// UID and resourceVersion.
	Delete []plan.Deletion
	// Update the newest AddressHistory. Precondition: resourceVersion.
	Update *plan.Update[*v1.AddressHistory]
	// Create the next AddressHistory. Precondition: its fixed name.
	Create *v1.AddressHistory
	// Confirm: first a live read must find the Network, or find it gone if the State has none.
	Confirm bool
	// Seen is the memory after the sync, and Written the memory if the write succeeds.
	Seen, Written *Seen
	// RequeueAfter is the time until the next write.
	RequeueAfter time.Duration
}

// Empty says whether there is nothing to write.
func (p Plan) Empty() bool { return len(p.Delete) == 0 && p.Update == nil && p.Create == nil }

// String has one action a line, in the order of the writes.
func (p Plan) String() string {
	var b strings.Builder
	if p.Confirm {
		b.WriteString("confirm the Network\n")
	}
	for _, d := range p.Delete {
		fmt.Fprintf(&b, "delete AddressHistory %s\n", d)
	}
	if p.Update != nil {
		fmt.Fprintf(&b, "update AddressHistory %s\n%s", *p.Update, content(p.Update.Object))
	}
	if p.Create != nil {
		fmt.Fprintf(&b, "create AddressHistory %s\n%s", p.Create.Name, content(p.Create))
	}
	return b.String() + plan.Tail(nil, p.RequeueAfter)
}

func content(h *v1.AddressHistory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  from %s through %s\n", clock(h.Spec.Since.Time), clock(h.Spec.Through.Time))
	for _, r := range h.Spec.Records {
		from := "?"
		if r.From != nil {
			from = clock(r.From.Time)
		}
		if r.Gap {
			fmt.Fprintf(&b, "  gap %s-%s\n", from, clock(r.Until.Time))
			continue
		}
		fmt.Fprintf(&b, "  %s %s %s-%s", r.Address, r.Pod, from, clock(r.Until.Time))
		for _, text := range []string{string(r.PodUID), r.Node} {
			if text != "" {
				b.WriteString(" " + text)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) }
