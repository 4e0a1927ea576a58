package pod2

import (
	"slices"
	"time"

	"github.com/pod2/pod2/pkg/plan"
)

// Diff plans the writes for one Pod2. It cannot fail: if something is impossible, a
// condition says so. A Pod2 that is being deleted is left to the garbage collector, which
// deletes its pods too. A pod created now would block a foreground deletion.
func Diff(s State) Plan {
	if s.Pod2.DeletionTimestamp != nil {
		return Plan{}
	}
	return look(s).plan(s)
}

func (v *view) plan(s State) Plan {
	failures := v.failures()

	p := Plan{steady: v.steadyOf(s), others: v.others, otherClaims: v.otherClaims()}
	p.Backoff = v.backoff(failures)
	p.CreateRevision, p.ChangeRevisions = v.revisions.create, v.revisions.change
	if p.Adopt = v.adopt(); len(p.Adopt) > 0 {
		p.of = &s
		return p
	}
	spare := v.spare()
	scaledDown := v.scaleDown(spare)
	updates := v.update(spare)
	p.Resize, p.InPlace = updates.resizes, updates.inPlace
	p.Delete = slices.Concat(scaledDown, updates.deletions, v.replace(failures))
	p.ChangeClaims, p.DeleteClaims = v.changedClaims(), v.surplusClaims()
	p.Relabel = v.relabel(p)
	p.Create = v.create()
	p.CreateClaims = v.lostClaims()
	p.DeleteRevisions = v.unused()
	p.GrowClaims = v.grownClaims()
	p.Status = v.status(failures)
	p.RequeueAfter = v.nextChange(failures)
	if s.NumbersHeld > 0 && p.statusMayWait(s) {
		p.Status, p.RequeueAfter = nil, plan.Soonest(p.RequeueAfter, s.NumbersHeld)
	}
	return p
}

// scaleDown deletes owned pods that have no place. An available one stays while too few
// replicas are available. With OrderedReady, each deletion waits for the previous one to
// finish.
func (v *view) scaleDown(spare *budget) []PodDeletion {
	if v.ordered() && slices.ContainsFunc(v.surplus, func(r replica) bool { return r.terminating }) {
		return nil
	}
	var deletions []PodDeletion
	for _, r := range v.surplus {
		if !r.terminating && spare.allows(r, true) {
			deletions = append(deletions, r.deletion("scaled down", causeScaledDown))
			if v.ordered() {
				break
			}
		}
	}
	return deletions
}

// update changes or deletes stale pods, from the highest ordinal down. A pod that is not
// Ready is no loss and is never counted. So a rollout that cannot become ready never
// blocks the one that repairs it. The images of Sidecars use the same budget. A stale pod
// gets them afterwards, or with its replacement.
func (v *view) update(spare *budget) (u updates) {
	for _, r := range slices.Backward(v.surge) {
		u.addSidecars(v, r, spare)
	}
	for _, found := range slices.Backward(v.found) {
		r := found.replica
		u.addSidecars(v, r, spare)
		if !r.stale || r.step.kind == stepAwait || !spare.enough(*r.step) || !spare.allowsUpdate(r, r.step.costs) {
			continue
		}
		switch r.step.kind {
		case stepRecreate:
			u.deletions = append(u.deletions, r.deletion(r.step.reason, causeUpdate))
		case stepResize:
			u.resizes = append(u.resizes, resize(r))
		case stepPatch:
			u.inPlace = append(u.inPlace, v.inPlaceUpdate(r))
		}
	}
	return u
}

type updates struct {
	resizes   []Resize
	inPlace   []InPlaceUpdate
	deletions []PodDeletion
}

// addSidecars gives a pod the images of its Sidecars. They count it as one of the pods that
// they may change at once, so those of other workloads wait for it.
func (u *updates) addSidecars(v *view, r replica, spare *budget) {
	if !r.live() || r.stale {
		return
	}
	if update, ok := v.sidecars[r.pod.UID]; ok && spare.allowsUpdate(r, update.Costs(r.pod)) {
		u.inPlace = append(u.inPlace, update.On(r.pod))
	}
}

// replace deletes terminated pods whose delay has passed. Their replacements are created
// once they are gone.
func (v *view) replace(failures map[int]failure) []PodDeletion {
	var deletions []PodDeletion
	for i, r := range v.unsteady(v.slots) {
		f, recorded := failures[i]
		if r.ended() && !v.now.Before(r.makesWay(f, recorded)) {
			deletions = append(deletions, r.deletion("terminated ("+cause(r.pod)+")", causeEnded))
		}
	}
	return deletions
}

func (r replica) deletion(reason string, why deletionCause) PodDeletion {
	return PodDeletion{plan.Delete(r.pod, reason), why}
}

// maxPods bounds the pods that one plan creates, and those that it labels, as a
// ReplicaSet's burst does. So a spec that changes meanwhile is read before the rest.
const maxPods = 500

// create fills in replicas from the lowest ordinal up, and then surge replicas, while
// there are fewer pods than replicas + maxSurge. Pods that this plan deletes still count,
// because their deletion takes time. With OrderedReady it creates one pod, once all
// before it are available. A replica whose PVC cannot be used waits, and the others do
// not.
func (v *view) create() []Creation {
	if v.emptying() {
		return nil
	}
	var creations []Creation
	room := min(v.replicas+v.maxSurge()-v.owned(), maxPods)
	for place, r := range v.unsteady(v.slots) {
		if room <= 0 || place >= v.replicas && v.pod2.Spec.Paused {
			break
		}
		if revision := v.revisionFor(place); r.pod == nil && !v.nameTooLong(place) && v.barred(place, v.untouchable) == "" && v.revisions.usable(revision) {
			creations = append(creations, Creation{
				Name: v.name(place), Reason: "missing", Recorded: revision.exists, NeedsClaims: len(v.missingClaims(place)) > 0,
				view: v, place: place, revision: revision,
			})
			room--
		}
		if v.ordered() && !r.serves() {
			break
		}
	}
	return creations
}

// nextChange returns the time until the first of these:
//   - a pod becomes available
//   - a delay has passed
//   - a record of failures expires
//   - a wanted address has rested
//   - a deadline is missed
//   - a terminating pod is overdue
func (v *view) nextChange(failures map[int]failure) time.Duration {
	var next time.Duration
	at := func(t time.Time) {
		if left := t.Sub(v.now); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	for i, r := range v.unsteady(v.slots) {
		if f, recorded := failures[i]; r.ended() {
			at(r.makesWay(f, recorded))
		}
	}
	for i, f := range failures {
		if r := v.at(i); r.live() && r.ready {
			at(f.forgiven(r.pod))
		}
	}
	for r := range v.allUnsteady() {
		if r.live() && r.ready && !r.available {
			at(v.availableAt(r))
		}
		if r.own && r.terminating && len(r.pod.Finalizers) == 0 {
			at(r.overdueAt())
		}
	}
	at(v.addressAt)
	at(v.deadline())
	return next
}
