package network

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Plan is what is to be written; the fields stand in the order in which they are
// written. Where one of them fails, apply goes on with those that do not depend on it.
// After a write that was refused because the view is old, apply stops.
type Plan struct {
	// AddFinalizer, BEFORE the first block: the Network must not vanish while a
	// pod holds an address of it. The same write puts down the gateway, where it is
	// not there yet. Should it fail, see WithoutFinalizer. Precondition: UID and
	// resourceVersion.
	AddFinalizer bool
	// Begin, in the same write: the Network is marked as one that hands out addresses,
	// BEFORE the first that was kept for nobody. It inherits no block from then on.
	Begin bool
	// Alive are pods that keep blocks of a backup from being inherited: each must be
	// confirmed to live by a live read BEFORE Begin, since what is not inherited then
	// never is.
	Alive []PodRef
	// Blocks in the order of their addresses.
	Blocks []BlockWrite
	// RemoveFinalizer, only when every block is sealed already. Preconditions:
	// resourceVersion, and a live list that shows every block of this UID sealed:
	// a cache of Networks may be ahead of one of blocks.
	RemoveFinalizer bool
	// Waits, AFTER the blocks, and only if all were written: conditions of pods that
	// could not be served.
	Waits []Wait
	// Status, last; nil when it stands as it is. If anything failed, Observed is
	// written in its place. Precondition: resourceVersion, because it records the CIDR
	// of the spec that it was made from.
	Status *v1.NetworkStatus
	// GivenAway tells, once the blocks are written, of reserved addresses that went to
	// others for want of free ones: the next plan would not know.
	GivenAway []plan.Event
	// Events follow the status, of whose change they tell.
	Events []plan.Event
	// MayWait: the plan does nothing but take back addresses of pods that are over, and
	// count them; no pod waits for one, and the Network stays. While many pods go, more
	// of it comes.
	MayWait bool
	// RequeueAfter is when time alone changes something; zero: never.
	RequeueAfter time.Duration
}

// Verb of a write to a block.
type Verb string

// Preconditions: Create by the fixed name, the block without entries, which an
// update adds, see BlockWrite.Fresh; Update by resourceVersion; Delete by UID and
// resourceVersion.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// BlockWrite is one write to the ledger.
type BlockWrite struct {
	Verb Verb
	// Block as it shall be.
	Block *v1.AddressBlock
	// Fresh: the block has no entry yet. Before it gets one the Network must be found
	// as the view has it, with our finalizer, by a live read made when the block
	// existed: whoever removes the finalizer then meets the block, and seals it. A
	// create with entries could come late, for a Network that is gone.
	Fresh bool
	// Restored: the block came back from a backup, and lacks its owner reference. The
	// Network must be found as the view has it, or not at all, by a live read: a view
	// from before the restore would take the block for one of a Network that is gone.
	Restored bool
	// Inherits: the block gets the UID of the Network. The live read must show, too, that
	// the Network has not begun to hand out addresses since. That there is a Network of
	// this name and another UID shows that the one which the block names is gone.
	Inherits bool
	// Binds: an address of it gets another holder, or holder's owner. The Network must be
	// of the generation that the view has, by a live read made before: what was excluded
	// meanwhile is not to be handed out.
	Binds bool
	// Changes, one a changed address, for people.
	Changes []string
	// TakesBack: no address is bound by it, and the Network stays.
	TakesBack bool
	// ConfirmOver lists the pods whose entries leave the state Bound: each must
	// be confirmed to be over by a live read made just before this write.
	ConfirmOver []PodRef
}

// PodRef is one incarnation of a pod.
type PodRef struct {
	Name string
	UID  types.UID
}

func (r PodRef) String() string { return fmt.Sprintf("%s (%s)", r.Name, r.UID) }

// Wait tells the user of a pod, in a condition of the pod, why it waits.
// Precondition: UID.
type Wait struct {
	Pod       PodRef
	Condition corev1.PodCondition
	// Event tells it in a warning too, AFTER the condition: kubectl describe shows
	// no message of a condition.
	Event bool
}

// WithoutFinalizer is the plan when AddFinalizer or Begin failed: it takes addresses
// back, and binds none.
func (p Plan) WithoutFinalizer() Plan {
	p.Blocks = slices.DeleteFunc(slices.Clone(p.Blocks), func(w BlockWrite) bool { return !w.TakesBack })
	return p
}

// Empty says that nothing is to be written.
func (p Plan) Empty() bool {
	return !p.AddFinalizer && !p.Begin && len(p.Blocks) == 0 && !p.RemoveFinalizer && len(p.Waits) == 0 && p.Status == nil
}

// String has one action a line, in the order in which they are written.
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
	return b.String() + plan.Tail(slices.Concat(p.GivenAway, p.Events), p.RequeueAfter)
}

func (w BlockWrite) String() string {
	text := fmt.Sprintf("%s block %s", w.Verb, w.Block.Name)
	if len(w.Changes) > 0 {
		text += ": " + strings.Join(w.Changes, "; ")
	}
	return text + refsText("; if over: ", w.ConfirmOver)
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

// fieldError puts the path of a field before what is wrong with its value.
func fieldError(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }
