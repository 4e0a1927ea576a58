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

// Plan is what is to be written; the fields stand in the order in which they are
// written. Where one of them fails, apply goes on with those that do not depend on it:
// see Without and WithoutAdoption. After a write that was refused because the view is
// old, apply stops.
type Plan struct {
	// Backoff, BEFORE Delete: the failure of a pod is on record before the pod,
	// the only other evidence, goes. Precondition: UID and resourceVersion.
	Backoff *Backoff
	// CreateRevision and ChangeRevisions, BEFORE Create: what a pod is made from is
	// on record. By fixed name; by resourceVersion.
	CreateRevision  *appsv1.ControllerRevision
	ChangeRevisions []*appsv1.ControllerRevision
	// Adopt pods that lack our owner reference; then nothing else becomes of pods,
	// and the status waits for the next plan. Should it fail, the rest is decided
	// without them, see WithoutAdoption. Precondition: UID and
	// resourceVersion, so that a pod that got a controller meanwhile stays its.
	Adopt []Adoption
	// Resize running pods. Precondition: UID and resourceVersion.
	Resize []Resize
	// InPlace updates of running pods, AFTER Resize. Precondition: UID and
	// resourceVersion: the annotation has containerIDs of that view.
	InPlace []InPlaceUpdate
	// Delete in this order. Precondition: UID and resourceVersion, so that a pod that
	// lost our owner reference meanwhile lives on.
	Delete []PodDeletion
	// ChangeClaims: labels, mark and owner reference, BEFORE DeleteClaims, so that
	// nothing is deleted for a mark that was to go: DeleteClaims depends on it. By UID
	// and resourceVersion.
	ChangeClaims []ClaimChange
	// DeleteClaims, AFTER Delete, of pods that were gone before, and BEFORE Create:
	// they may take the quota that a new claim needs. Preconditions: UID and
	// resourceVersion, for whose it is and its mark are the cache's, and that a live
	// read finds no pod of the ordinal.
	DeleteClaims []plan.Deletion
	// Create in this order, by fixed name: maxPods at most. The next plan has the
	// rest, of the spec as it is by then.
	Create []Creation
	// CreateClaims beneath pods that exist, by fixed name.
	CreateClaims []*corev1.PersistentVolumeClaim
	// DeleteRevisions that nothing is made from. Precondition: UID and
	// resourceVersion.
	DeleteRevisions []plan.Deletion
	// GrowClaims, AFTER all that their refusal should not hold up. By UID and
	// resourceVersion.
	GrowClaims []ClaimChange
	// Relabel pods to which this plan does nothing else, maxPods at most, AFTER
	// all that one conflict should not hold up. Precondition: UID and
	// resourceVersion, so that a pod that lost our owner reference meanwhile keeps its labels.
	Relabel []Relabelling
	// Status, AFTER everything; nil when it stands as it is. It tells what was
	// observed: what this plan does to the counters, the next one sees.
	Status *v1.Pod2Status
	// RequeueAfter is when time alone changes something; zero: never.
	RequeueAfter time.Duration

	// of is the State, where there is something to adopt.
	of *State
}

// Backoff is a write to the annotation v1.BackoffAnnotation of the Pod2.
type Backoff struct {
	// Value is the whole new value; "" removes the annotation.
	Value string
}

// PodDeletion is of one incarnation of a pod.
type PodDeletion struct {
	plan.Deletion
	cause deletionCause
}

// deletionCause is what a pod is deleted for, as far as others depend on it.
type deletionCause int

const (
	causeScaledDown deletionCause = iota + 1
	causeUpdate
	causeEnded
)

// Creation of a replica. It names the pod and makes it when it is asked to: 500
// pods of a template of 256 KiB, made beforehand, would be 128 MiB and more.
type Creation struct {
	Name   string
	Reason string
	// Recorded says that the revision which the pod is made from existed before this
	// plan: such a pod does not depend on Plan.CreateRevision.
	Recorded bool
	// NeedsClaims says that Claims has some.
	NeedsClaims bool

	view     *view
	place    int
	revision *revision
}

// Pod makes the pod, anew each time.
func (c Creation) Pod() *corev1.Pod { return c.view.build(c.place, c.revision) }

// Claims of the pod that do not exist, BEFORE it, by fixed name; made anew each
// time. They are not created for all pods first: a quota of claims would then leave
// those without a pod that have their claims.
func (c Creation) Claims() []*corev1.PersistentVolumeClaim { return c.view.missingClaims(c.place) }

// Request for addresses of the pod, "" for none.
func (c Creation) Request() string {
	return c.view.requestsOf(c.revision).of(c.view.ordinals.At(c.place))
}

// ClaimChange is a claim as it is to be: with our labels, annotation and owner
// references, and of a size.
type ClaimChange struct {
	Claim  *corev1.PersistentVolumeClaim
	Reason string
}

// Empty says that nothing is to be written.
func (p Plan) Empty() bool {
	return p.Backoff == nil && p.CreateRevision == nil && len(p.ChangeRevisions) == 0 && len(p.Adopt) == 0 && len(p.Relabel) == 0 && len(p.Resize) == 0 && len(p.InPlace) == 0 && len(p.Delete) == 0 &&
		len(p.ChangeClaims) == 0 && len(p.DeleteClaims) == 0 && len(p.Create) == 0 && len(p.CreateClaims) == 0 &&
		len(p.DeleteRevisions) == 0 && len(p.GrowClaims) == 0 && p.Status == nil
}

// NeedsOwner says that something is created for the Pod2 or made its own, and would
// be collected as garbage were it gone, or that a claim is changed for good: BEFORE
// it, a live read must say that the Pod2 is as it was seen.
func (p Plan) NeedsOwner() bool {
	return len(p.Adopt) > 0 || p.CreateRevision != nil || len(p.ChangeRevisions) > 0 ||
		len(p.ChangeClaims) > 0 || len(p.DeleteClaims) > 0 || len(p.GrowClaims) > 0 || len(p.Create) > 0 || len(p.CreateClaims) > 0
}

// Missing is what could not be had of what writes depend on.
type Missing struct {
	// Owner: no live read said that the Pod2 is as it was seen, see NeedsOwner.
	Owner bool
	// Backoff: failures could not be put on record. The pods that ended stay, as the
	// only evidence.
	Backoff bool
	// Revision: CreateRevision failed. No pod is made of it, none becomes of it, and none
	// makes way for it.
	Revision bool
}

// Without is the part of the plan that does not depend on what is missing.
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

// WithoutAdoption is decided of the same view when no pod could be adopted: while pods were
// to be adopted, nothing else was. One that may be ours, as the answer was lost, takes the
// place of one of ours.
func (p Plan) WithoutAdoption(mayBeOurs bool) Plan {
	s := *p.of
	s.Unadoptable = map[types.UID]Unadoptable{}
	for _, a := range p.Adopt {
		s.Unadoptable[a.UID] = Unadoptable{MayBeOurs: mayBeOurs}
	}
	again := Diff(s)
	again.DeleteRevisions = nil // one may be what makes such a pod ours
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
