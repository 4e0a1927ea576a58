package network

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Plan has the writes to make, in the order of its fields. If a write fails, apply continues
// with those that do not depend on it. If a write was refused because the view is old, apply
// stops.
type Plan struct {
	// AddFinalizer, BEFORE the first AddressBlock: the Network must not vanish while a pod
	// holds one of its addresses. The same write records the gateway if it is not recorded
	// yet. If the write fails, see WithoutFinalizer. Precondition: UID and resourceVersion.
	AddFinalizer bool
	// Begin, in the same write: marks the Network as one that hands out addresses, BEFORE
	// it binds the first address that was kept for no pod. After that it inherits no
	// AddressBlock.
	Begin bool
	// Alive are pods that keep AddressBlocks of a backup from being inherited. A live
	// read must confirm that each lives BEFORE Begin: an AddressBlock that is not
	// inherited by then never is.
	Alive []PodRef
	// Blocks in the order of their addresses.
	Blocks []BlockWrite
	// RemoveFinalizer, only once every AddressBlock is sealed. Preconditions:
	// resourceVersion, and a live LIST that shows every AddressBlock of this UID sealed.
	// The cache of Networks may be ahead of the cache of AddressBlocks.
	RemoveFinalizer bool
	// Waits, AFTER the AddressBlocks and only if all were written: conditions of pods
	// that got no address.
	Waits []Wait
	// Status, last; nil if it does not change. If anything failed, Observed is written
	// instead. Precondition: resourceVersion, because the status records the CIDR of the
	// spec that it was made from.
	Status *v1.NetworkStatus
	// Reassigned reports, once the AddressBlocks are written, reserved addresses that
	// other pods got because none was free. The next plan could not know this.
	Reassigned []plan.Event
	// Events are sent after the status, because they report its changes.
	Events []plan.Event
	// MayWait: the plan only takes back addresses of terminated pods and counts them. No pod
	// waits for an address, and the Network is not being deleted. While many pods terminate,
	// more such work follows. While State.ReleasesHeld, such a plan has no writes.
	MayWait bool
	// RequeueAfter is the time until the passing of time changes something; zero: never.
	RequeueAfter time.Duration
}

// Verb of a write to an AddressBlock.
type Verb string

// Preconditions: Create by the fixed name, without entries, which an update adds (see
// BlockWrite.Fresh); Update by resourceVersion; Delete by UID and resourceVersion.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// BlockWrite is one write to an AddressBlock.
type BlockWrite struct {
	Verb Verb
	// Block is the desired AddressBlock, Seen the observed one; nil for Create.
	Block, Seen *v1.AddressBlock
	// Fresh: the AddressBlock has no entry yet. Before it gets one, a live read made when
	// the AddressBlock existed must find the Network as in the view, with our finalizer.
	// So a controller that removes the finalizer sees the AddressBlock and seals it. A
	// create with entries could arrive late, after the Network is gone.
	Fresh bool
	// Restored: the AddressBlock came back from a backup without its owner reference. A
	// live read must find the Network as in the view, or not at all. A view from before
	// the restore would assign the AddressBlock to a Network that is gone.
	Restored bool
	// Inherits: the AddressBlock gets the UID of the Network. The live read must also
	// show that the Network has not begun to hand out addresses. A Network with this name
	// and another UID proves that the Network named in the AddressBlock is gone.
	Inherits bool
	// Binds: an address in it gets another holder, or its holder another owner. A live
	// read made before must find the Network's generation as in the view. Otherwise the
	// write could hand out an address that was excluded in the meantime.
	Binds bool
	// Changes has one text for each changed address, for people to read.
	Changes []string
	// TakesBack: the write binds no address, and the Network is not being deleted.
	TakesBack bool
	// ConfirmOver lists the pods whose entries leave the state Bound. A live read made just
	// before this write must confirm that each has terminated.
	ConfirmOver []PodRef
}

// PodRef identifies one pod by name and UID.
type PodRef struct {
	Name string
	UID  types.UID
}

func (r PodRef) String() string { return fmt.Sprintf("%s (%s)", r.Name, r.UID) }

// Wait is the condition that explains to the user of a pod why the pod waits.
// Precondition: UID.
type Wait struct {
	Pod       PodRef
	Condition corev1.PodCondition
	// Event: send a warning too, AFTER the condition, because kubectl describe shows no
	// message of a condition.
	Event bool
}

// WithoutFinalizer is the plan to use if AddFinalizer or Begin failed. It takes addresses
// back and binds none.
func (p Plan) WithoutFinalizer() Plan {
	p.Blocks = slices.DeleteFunc(slices.Clone(p.Blocks), func(w BlockWrite) bool { return !w.TakesBack })
	return p
}

// Marked is the Network with the finalizer, the mark and the gateway of the plan.
func (p Plan) Marked(n *v1.Network) *v1.Network {
	marked := n.DeepCopy()
	if p.AddFinalizer {
		marked.Finalizers = append(marked.Finalizers, v1.InUseFinalizer)
	}
	if p.Begin {
		metav1.SetMetaDataAnnotation(&marked.ObjectMeta, v1.NetworkUIDAnnotation, string(n.UID))
	}
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, v1.GatewayAnnotation, gatewayText(n))
	return marked
}

// Empty says whether there is nothing to write.
func (p Plan) Empty() bool {
	return !p.AddFinalizer && !p.Begin && len(p.Blocks) == 0 && !p.RemoveFinalizer && len(p.Waits) == 0 && p.Status == nil
}

// String has one action a line, in the order of the writes.
func (p Plan) String() string {
	var b strings.Builder
	if p.AddFinalizer {
		b.WriteString("add finalizer\n")
	}
	if p.Begin {
		b.WriteString("begin" + refsText("; if alive: ", p.Alive) + "\n")
	}
	for _, w := range p.Blocks {
		fmt.Fprintf(&b, "%s\n", w)
	}
	if p.RemoveFinalizer {
		b.WriteString("remove finalizer\n")
	}
	for _, w := range p.Waits {
		fmt.Fprintf(&b, "%s waits: %s: %s\n", w.Pod, w.Condition.Reason, w.Condition.Message)
		if w.Event {
			fmt.Fprintf(&b, "event on %s: %s\n", w.Pod, w.Condition.Reason)
		}
	}
	if p.Status != nil {
		fmt.Fprintf(&b, "status %s\n", statusText(p.Status))
	}
	return b.String() + plan.Tail(slices.Concat(p.Reassigned, p.Events), p.RequeueAfter)
}

func (w BlockWrite) String() string {
	text := fmt.Sprintf("%s block %s", w.Verb, w.Block.Name)
	if len(w.Changes) > 0 {
		text += ": " + strings.Join(w.Changes, "; ")
	}
	return text + refsText("; if terminated: ", w.ConfirmOver)
}

func refsText(before string, refs []PodRef) string {
	text := ""
	for _, pod := range refs {
		text += before + pod.String()
		before = ", "
	}
	return text
}

func statusText(s *v1.NetworkStatus) string {
	text := fmt.Sprintf("capacity %d bound %d reserved %d resting %d available %d gateway %q",
		s.Capacity, s.Bound, s.Reserved, s.Resting, s.Available, s.Gateway)
	if len(s.CIDRs) > 1 {
		text += " cidrs " + strings.Join(s.CIDRs, ",")
	}
	return text + plan.ConditionsText(s.Conditions)
}

// fieldError puts the path of a field before the error about its value.
func fieldError(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }
