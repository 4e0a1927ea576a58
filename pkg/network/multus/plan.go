package multus

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Plan has the writes to make, in the order of its fields. apply stops at the first error,
// except for errors of Create and Update that a user must fix.
type Plan struct {
	// Claim, BEFORE the number is published anywhere. Precondition: its fixed name.
	Claim *v1.VNI
	// Release unused VNIs. Preconditions: UID and resourceVersion, and a live read that
	// confirms it, see Release.
	Release []Release
	// Create and Update the definition, AFTER Claim. At most one of them is set.
	// Preconditions: its fixed name and a live read of the Network, or resourceVersion.
	Create *nadv1.NetworkAttachmentDefinition
	Update *plan.Update[*nadv1.NetworkAttachmentDefinition]
	// Status, last; nil if it does not change. Precondition: resourceVersion.
	Status *v1.NetworkStatus
	// Events are sent after the status, because they report its changes.
	Events []plan.Event
}

// Release is a VNI to delete. A live read of the Network must first find that the Network
// with this UID is gone, or has another number in its status.
type Release struct {
	plan.Deletion
	VNI     int32
	Network types.UID
}

// Unused says whether the VNI may be released, given a live read of the Network; nil: the
// read did not find it.
func (r Release) Unused(live *v1.Network) bool {
	return live == nil || live.UID != r.Network || live.Status.VNI != 0 && live.Status.VNI != r.VNI
}

// Empty says whether there is nothing to write.
func (p Plan) Empty() bool {
	return p.Claim == nil && len(p.Release) == 0 && p.Create == nil && p.Update == nil && p.Status == nil
}

// String has one action a line, in the order of the writes.
func (p Plan) String() string {
	var b strings.Builder
	if p.Claim != nil {
		fmt.Fprintf(&b, "claim VNI %s for %s\n", p.Claim.Name, p.Claim.Spec.Network.UID)
	}
	for _, r := range p.Release {
		fmt.Fprintf(&b, "release VNI %d (uid %s), if unused: %s\n", r.VNI, r.UID, r.Reason)
	}
	if p.Create != nil {
		fmt.Fprintf(&b, "create definition %s: %s\n", p.Create.Name, p.Create.Spec.Config)
	}
	if p.Update != nil {
		fmt.Fprintf(&b, "update definition %s\n", p.Update)
	}
	if p.Status != nil {
		fmt.Fprintf(&b, "status %s\n", statusText(p.Status))
	}
	return b.String() + plan.Tail(p.Events, 0)
}

func statusText(s *v1.NetworkStatus) string {
	text := fmt.Sprintf("vni %d", s.VNI)
	for _, c := range s.Conditions {
		if c.Type == v1.ConditionAttachable {
			text += fmt.Sprintf(" %s=%s/%s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return text
}

func controller(n *v1.Network) metav1.OwnerReference {
	return *metav1.NewControllerRef(n, schema.GroupVersion(v1.GroupVersion).WithKind("Network"))
}
