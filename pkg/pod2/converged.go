package pod2

import (
	"fmt"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Converged says "" when no write of ours is due, else the first that is. It is
// what "done" means, written apart from the way there:
//
//   - a Pod2 that is being deleted wants nothing;
//   - the content of the spec is a revision, the newest, ours are ours and say what their
//     networks have, and no more unused ones are kept than the limit says;
//   - no pod that could be adopted has the name of a replica, or was one;
//   - a pod of ours without a place, or a stale one, is there only because it cannot
//     be spared, and then it is Ready; or because the one after it has still to
//     go, where they go one by one; or while its node resizes it, or its address is kept;
//   - a pod that is over is on record, waits for its time, or finds the records full;
//   - a replica is missing only because pods of ours, as many as there are replicas
//     and maxSurge, or old ones of a Recreate, have still to go; or because one before
//     it is not available, where they come one by one; a surge replica also while the
//     update is paused; or because a claim of it is another's or on its way out, or its name too long;
//   - each pod of ours has our labels, and if it serves or will, those that the Pod2 gives it;
//   - claims are as claimsDiffer says;
//   - the annotation has just the records that count, and the status says all this.
//
// A state that waits for others, or for time to pass, is converged: for it there
// is nothing to write.
func Converged(s State) string {
	if s.Pod2.DeletionTimestamp != nil {
		return ""
	}
	v := look(s)
	switch {
	case v.revisions.create != nil:
		return "the revision of the spec does not exist"
	case len(v.revisions.change) > 0:
		return fmt.Sprintf("revision %s is not ours, or not the newest, or its networks are not recorded", v.revisions.change[0].Name)
	case len(v.unused()) > 0:
		return fmt.Sprintf("revision %s is unused and beyond the limit", v.unused()[0].Name)
	}
	if adoptions := v.adopt(); len(adoptions) > 0 {
		return fmt.Sprintf("pod %s is not adopted: %s", adoptions[0].Name, adoptions[0].Reason)
	}
	failures, why := v.onRecord()
	if why != "" {
		return why
	}
	if why := v.unplaced(failures); why != "" {
		return why
	}
	for r := range v.all() {
		if r.relabelling != nil {
			return "the labels are not as they should be: " + r.relabelling.String()
		}
	}
	if why := claimsDiffer(v, s); why != "" {
		return why
	}
	if status := v.status(failures); status != nil {
		return "the status would be: " + statusText(status)
	}
	return ""
}

// unplaced is the first pod that is to come or to go.
func (v *view) unplaced(failures map[int]failure) string {
	spare := v.recreate() || v.spare().left > 0
	oneGoes := v.ordered() && slices.ContainsFunc(v.surplus, func(r replica) bool { return r.terminating })
	for _, r := range v.surplus {
		if !r.terminating && (spare || !r.serves()) && !oneGoes {
			return fmt.Sprintf("pod %s has no place", r.pod.Name)
		}
	}
	room := v.owned() < len(v.replicas)+v.maxSurge() && !v.emptying()
	blocked := false // by a replica before it, where they come one by one
	for i, r := range v.slots {
		f, recorded := failures[i]
		surge := i >= len(v.replicas)
		switch {
		case r.pod == nil && room && !blocked && (!surge || !v.pod2.Spec.Paused) && !v.nameTooLong(i) && v.barred(i, v.untouchable) == "" && v.revisions.usable(v.revisionFor(i)):
			return fmt.Sprintf("pod %s is missing", v.name(i))
		case r.pod == nil || !r.own || r.terminating:
		case r.stale && !surge && r.step.kind != stepAwait && v.spare().enough(r.step) && (spare || !r.live() || !r.ready || !r.step.costs):
			return fmt.Sprintf("pod %s is outdated: %s", r.pod.Name, r.outdated)
		case !r.stale && r.over && (recorded && !v.now.Before(f.due()) || !recorded && v.now.Sub(r.pod.CreationTimestamp.Time) >= longestDelay):
			return fmt.Sprintf("pod %s is over and was waited for", r.pod.Name)
		}
		blocked = blocked || v.ordered() && !r.serves()
	}
	return ""
}

// onRecord reads the annotation and says what is wrong with it.
func (v *view) onRecord() (map[int]failure, string) {
	failures, slots := map[int]failure{}, v.slots
	for name, f := range recorded(v.pod2) {
		i, ok := v.place(name)
		switch {
		case !ok || i >= len(slots):
			return nil, "backoff is recorded for what is no replica"
		case slots[i].forgives(f, v.now):
			return nil, fmt.Sprintf("backoff of %s is no longer of use", name)
		case f.Since.After(v.now):
			return nil, fmt.Sprintf("backoff of %s begins in the future", name)
		}
		failures[i] = f
	}
	if len(failures) > maxFailures {
		return nil, "backoff has too many records"
	}
	for i, r := range slots {
		if f, known := failures[i]; r.ended() && (known && f.UID != r.pod.UID || !known && len(failures) < maxFailures) {
			return nil, fmt.Sprintf("the end of pod %s is not recorded", r.pod.Name)
		}
	}
	if v.pod2.Annotations[v1.BackoffAnnotation] != v.formatFailures(failures) {
		return nil, "the backoff annotation is not as we write it"
	}
	return failures, ""
}
