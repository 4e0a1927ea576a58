package pod2

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Plan lists the writes, in the order in which apply makes them. If one of them fails,
// apply continues with those that do not depend on it: see Without and WithoutAdoption.
// After a write that was refused because the view is old, apply stops. The Plan also keeps the pods of
// its State for the next one.
type Plan struct {
	// Backoff, BEFORE Delete: the failure of a pod is on record before the pod,
	// which is the only other evidence, is deleted. Precondition: UID and resourceVersion.
	Backoff *Backoff
	// CreateRevision and ChangeRevisions, BEFORE Create: the content of a pod is on
	// record. Precondition: a fixed name to create, resourceVersion to change.
	CreateRevision  *appsv1.ControllerRevision
	ChangeRevisions []*appsv1.ControllerRevision
	// Adopt pods that lack the Pod2's owner reference. If there are any, the plan does
	// nothing else to pods, and the status waits for the next plan. If the adoption
	// fails, the rest is decided without these pods, see WithoutAdoption. Precondition:
	// UID and resourceVersion. So a pod keeps a controller that it got meanwhile.
	Adopt []Adoption
	// Resize running pods. Precondition: UID and resourceVersion.
	Resize []Resize
	// InPlace updates of running pods, AFTER Resize. Precondition: UID and
	// resourceVersion, because the annotation has containerIDs of that view.
	InPlace []InPlaceUpdate
	// Delete in this order. Precondition: UID and resourceVersion. So a pod that lost the
	// Pod2's owner reference meanwhile is kept.
	Delete []PodDeletion
	// ChangeClaims changes labels, mark and owner reference. It is BEFORE DeleteClaims,
	// and DeleteClaims depends on it: no PVC may be deleted because of a mark that was to
	// be removed. Precondition: UID and resourceVersion.
	ChangeClaims []ClaimChange
	// DeleteClaims, AFTER Delete, for pods that were already gone, and BEFORE Create:
	// they may use the quota that a new PVC needs. Preconditions: UID and
	// resourceVersion, because owner and mark come from the cache, and a live read that
	// finds no pod with the ordinal.
	DeleteClaims []ClaimDeletion
	// Create in this order, by fixed name: at most maxPods. The next plan creates the
	// rest, from the spec at that time.
	Create []Creation
	// CreateClaims for pods that exist, by fixed name.
	CreateClaims []*corev1.PersistentVolumeClaim
	// DeleteRevisions that no pod uses. Precondition: UID and resourceVersion.
	DeleteRevisions []plan.Deletion
	// GrowClaims, AFTER all writes that a refusal should not block. Precondition: UID and
	// resourceVersion.
	GrowClaims []ClaimChange
	// Relabel pods that this plan does not change otherwise, at most maxPods, AFTER all
	// writes that one conflict should not block. Precondition: UID and resourceVersion.
	// So a pod that lost the Pod2's owner reference meanwhile keeps its labels.
	Relabel []Relabelling
	// Status, AFTER everything; nil if it is already written. It reports the observed
	// state: the next plan observes how this one changes the counters.
	Status *v1.Pod2Status
	// RequeueAfter is when time alone changes something; zero means never.
	RequeueAfter time.Duration

	// of is the State, if there is something to adopt.
	of *State
	// steady are the steady replicas. others are the other pods of the State, and otherClaims
	// the PVCs that belong to none of them, in name order.
	steady      *Steady
	others      []*corev1.Pod
	otherClaims []*corev1.PersistentVolumeClaim
}

// Backoff is a write to the annotation v1.BackoffAnnotation of the Pod2.
type Backoff struct {
	// Value is the complete new value; "" removes the annotation.
	Value string
}

// PodDeletion deletes one pod, by UID.
type PodDeletion struct {
	plan.Deletion
	cause deletionCause
}

// deletionCause is why a pod is deleted, as far as other code depends on it.
type deletionCause int

const (
	causeScaledDown deletionCause = iota + 1
	causeUpdate
	causeEnded
)

// Creation creates a replica. It names the pod, and builds it on demand: building 500
// pods from a template of 256 KiB in advance would take 128 MiB or more.
type Creation struct {
	Name   string
	Reason string
	// Recorded is true if the pod's revision existed before this plan: such a pod does
	// not depend on Plan.CreateRevision.
	Recorded bool
	// NeedsClaims is true if Claims returns any.
	NeedsClaims bool

	view     *view
	place    int
	revision *revision
}

// Pod builds the pod, anew each time.
func (c Creation) Pod() *corev1.Pod { return c.view.build(c.place, c.revision) }

// Claims builds the PVCs of the pod that do not exist, anew each time. They are created
// BEFORE the pod, by fixed name. They are not created for all pods first: under a quota
// of PVCs, pods whose PVCs exist would then not be created.
func (c Creation) Claims() []*corev1.PersistentVolumeClaim { return c.view.missingClaims(c.place) }

// Request returns the pod's request for addresses, "" for none.
func (c Creation) Request() string {
	return c.view.requestsOf(c.revision).of(c.view.ordinals.At(c.place))
}

// ClaimChange is a PVC with the labels, annotation, owner references and size that it
// must have.
type ClaimChange struct {
	Claim  *corev1.PersistentVolumeClaim
	Reason string
}

// ClaimDeletion deletes the PVC of an ordinal.
type ClaimDeletion struct {
	plan.Deletion
	Pod string // the name of the ordinal's pod, which must not exist
}

// Steady returns the steady replicas of the State, for a later State. It is nil if none are known.
func (p Plan) Steady() *Steady { return p.steady }

// Others returns the pods of the State that are not steady replicas, in name order.
func (p Plan) Others() []*corev1.Pod { return p.others }

// OtherClaims returns the PVCs of the State that belong to no steady replica, in name order.
func (p Plan) OtherClaims() []*corev1.PersistentVolumeClaim { return p.otherClaims }

// MayTakeAway reports whether the plan deletes or changes pods, which may make them unavailable. The plan that
// follows a refused adoption may do so, too.
func (p Plan) MayTakeAway() bool {
	return len(p.Adopt)+len(p.Delete)+len(p.InPlace)+len(p.Resize) > 0
}

// Empty reports whether there is nothing to write.
func (p Plan) Empty() bool {
	return p.Backoff == nil && p.CreateRevision == nil && len(p.ChangeRevisions) == 0 && len(p.Adopt) == 0 && len(p.Relabel) == 0 && len(p.Resize) == 0 && len(p.InPlace) == 0 && len(p.Delete) == 0 &&
		len(p.ChangeClaims) == 0 && len(p.DeleteClaims) == 0 && len(p.Create) == 0 && len(p.CreateClaims) == 0 &&
		len(p.DeleteRevisions) == 0 && len(p.GrowClaims) == 0 && p.Status == nil
}

// NeedsOwner reports whether the plan creates or adopts something for the Pod2, which
// would be garbage without it, or changes a PVC for good. BEFORE such a write, a live
// read must show that the Pod2 has not changed.
func (p Plan) NeedsOwner() bool {
	return len(p.Adopt) > 0 || p.CreateRevision != nil || len(p.ChangeRevisions) > 0 ||
		len(p.ChangeClaims) > 0 || len(p.DeleteClaims) > 0 || len(p.GrowClaims) > 0 || len(p.Create) > 0 || len(p.CreateClaims) > 0
}

// Missing says which dependencies of writes failed.
type Missing struct {
	// Owner: no live read showed that the Pod2 is unchanged, see NeedsOwner.
	Owner bool
	// Backoff: failures are not on record. The terminated pods stay, because they are the
	// only evidence.
	Backoff bool
	// Revision: CreateRevision failed. No pod is created from it, updated to it or
	// deleted for it.
	Revision bool
}

// Without returns the part of the plan that does not depend on the missing writes.
func (p Plan) Without(m Missing) Plan {
	if (m.Owner || m.Revision) && p.CreateRevision != nil {
		p.CreateRevision, p.Resize, p.InPlace = nil, nil, nil
		p.Delete = slices.DeleteFunc(slices.Clone(p.Delete), func(d PodDeletion) bool { return d.cause == causeUpdate })
		p.Create = slices.DeleteFunc(slices.Clone(p.Create), func(c Creation) bool { return !c.Recorded })
	}
	if m.Owner {
		p.Adopt, p.ChangeRevisions, p.ChangeClaims, p.DeleteClaims, p.GrowClaims, p.Create, p.CreateClaims = nil, nil, nil, nil, nil, nil, nil
	}
	if m.Backoff {
		p.Backoff = nil
		p.Delete = slices.DeleteFunc(slices.Clone(p.Delete), func(d PodDeletion) bool { return d.cause == causeEnded })
	}
	return p
}

// WithoutAdoption decides from the same view when no pod could be adopted: nothing else
// was decided about pods before. If the answer to an adoption was lost, the Pod2 may own
// that pod, so it counts as an owned one.
func (p Plan) WithoutAdoption(mayBeOurs bool) Plan {
	s := *p.of
	s.Unadoptable = map[types.UID]Unadoptable{}
	for _, a := range p.Adopt {
		s.Unadoptable[a.UID] = Unadoptable{MayBeOurs: mayBeOurs}
	}
	again := Diff(s)
	again.DeleteRevisions = nil // an unadopted pod may need one to be recognized
	return again
}

// String has one action a line, in the order in which they are written.
func (p Plan) String() string {
	var b strings.Builder
	switch {
	case p.Backoff != nil && p.Backoff.Value == "":
		b.WriteString("remove backoff\n")
	case p.Backoff != nil:
		fmt.Fprintf(&b, "backoff %s\n", p.Backoff.Value)
	}
	if r := p.CreateRevision; r != nil {
		fmt.Fprintf(&b, "create revision %d %s\n", r.Revision, r.Name)
	}
	for _, r := range p.ChangeRevisions {
		fmt.Fprintf(&b, "change revision %s: number %d\n", r.Name, r.Revision)
	}
	for _, a := range p.Adopt {
		fmt.Fprintf(&b, "adopt %s (uid %s) of revision %s: %s\n", a.Name, a.UID, a.Labels[v1.PodTemplateHashLabel], a.Reason)
	}
	for _, r := range p.Resize {
		fmt.Fprintf(&b, "resize %s (uid %s): %s\n", r.Name, r.UID, r.Reason)
	}
	for _, u := range p.InPlace {
		fmt.Fprintf(&b, "update %s in place (uid %s): %s\n", u.Name, u.UID, u.Reason)
	}
	for _, d := range p.Delete {
		fmt.Fprintf(&b, "delete %s\n", d)
	}
	for _, c := range p.ChangeClaims {
		fmt.Fprintf(&b, "change PVC %s: %s\n", c.Claim.Name, c.Reason)
	}
	for _, d := range p.DeleteClaims {
		fmt.Fprintf(&b, "delete PVC %s\n", d)
	}
	for _, c := range p.Create {
		for _, claim := range c.Claims() {
			fmt.Fprintf(&b, "create PVC %s\n", claim.Name)
		}
		on := ""
		if request := c.Request(); request != "" {
			on = " on " + request
		}
		fmt.Fprintf(&b, "create %s%s: %s\n", c.Name, on, c.Reason)
	}
	for _, claim := range p.CreateClaims {
		fmt.Fprintf(&b, "create PVC %s: its pod needs it\n", claim.Name)
	}
	for _, d := range p.DeleteRevisions {
		fmt.Fprintf(&b, "delete revision %s\n", d)
	}
	for _, c := range p.GrowClaims {
		fmt.Fprintf(&b, "grow PVC %s: %s\n", c.Claim.Name, c.Reason)
	}
	for _, l := range p.Relabel {
		fmt.Fprintln(&b, l)
	}
	if p.Status != nil {
		fmt.Fprintf(&b, "status %s\n", statusText(p.Status))
	}
	return b.String() + plan.Tail(nil, p.RequeueAfter)
}

func statusText(s *v1.Pod2Status) string {
	text := fmt.Sprintf("ready %d/%d available %d updated %d current %q update %q networks %q generation %d",
		s.ReadyReplicas, s.Replicas, s.AvailableReplicas, s.UpdatedReplicas, s.CurrentRevision, s.UpdateRevision, s.Networks, s.ObservedGeneration)
	return text + plan.ConditionsText(s.Conditions)
}
