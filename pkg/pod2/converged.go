package pod2

import (
	"fmt"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Converged says "" when no write of ours is due, else the first that is. It is
// what "done" means, written apart from the way there:
//
//   - a Pod2 that is being deleted wants nothing;
//   - a pod of ours without a replica's name, or an outdated one, is there only
//     because it cannot be spared, and then it is available;
//   - a pod that is over is on record, waits for its time, or finds the records full;
//   - a replica is missing only because pods of ours, as many as there are replicas,
//     or old ones of a Recreate, have still to go;
//   - the annotation has just the records that count, and the status says all this.
//
// A state that waits for others, or for time to pass, is converged: for it there
// is nothing to write.
func Converged(s State) string {
	if s.Pod2.DeletionTimestamp != nil {
		return ""
	}
	v := look(s)
	spare := v.recreate() || v.spare().left > 0
	for _, r := range v.surplus {
		if !r.terminating && (spare || !r.serves()) {
			return fmt.Sprintf("pod %s has no replica's name", r.pod.Name)
		}
	}
	failures, why := v.onRecord()
	if why != "" {
		return why
	}
	held := v.recreate() && v.oldPod()
	room := v.owned() < len(v.replicas) && !held
	for i, r := range v.replicas {
		f, recorded := failures[i]
		switch {
		case r.pod == nil && room:
			return fmt.Sprintf("pod %s is missing", v.name(i))
		case r.pod == nil || !r.own || r.terminating:
		case r.outdated != "" && (spare || !r.serves()):
			return fmt.Sprintf("pod %s is outdated: %s", r.pod.Name, r.outdated)
		case r.outdated != "" || !r.over:
		case recorded && !v.now.Before(f.due()):
			return fmt.Sprintf("pod %s is over and was waited for", r.pod.Name)
		}
	}
	if status := v.status(failures); status != nil {
		return "the status would be: " + statusText(status)
	}
	return ""
}

// onRecord reads the annotation and says what is wrong with it.
func (v *view) onRecord() (map[int]failure, string) {
	failures := map[int]failure{}
	for name, f := range recorded(v.pod2) {
		i, ok := v.index(name)
		switch {
		case !ok:
			return nil, "backoff is recorded for what is no replica"
		case v.replicas[i].forgives(f, v.now):
			return nil, fmt.Sprintf("backoff of %s is no longer of use", name)
		case f.Since.After(v.now):
			return nil, fmt.Sprintf("backoff of %s begins in the future", name)
		}
		failures[i] = f
	}
	if len(failures) > maxFailures {
		return nil, "backoff has too many records"
	}
	for i, r := range v.replicas {
		if f, known := failures[i]; r.ended() && (known && f.UID != r.pod.UID || !known && len(failures) < maxFailures) {
			return nil, fmt.Sprintf("the end of pod %s is not recorded", r.pod.Name)
		}
	}
	if v.pod2.Annotations[v1.BackoffAnnotation] != v.formatFailures(failures) {
		return nil, "the backoff annotation is not as we write it"
	}
	return failures, ""
}
