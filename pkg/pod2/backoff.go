package pod2

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// If the pods of a replica keep terminating, their replacements wait 0 s, 10 s, 20 s, 40
// s, 80 s, 160 s and then 5 min each. A pod that stays ready for 10 min clears the
// record. These are the kubelet's figures for containers, except the first: it is free,
// because most pods that terminate do so once.
const (
	firstDelay   = 10 * time.Second
	longestDelay = 5 * time.Minute
	forgiveAfter = 10 * time.Minute

	// maxFailures bounds the annotation. At some 170 bytes a record it stays well below
	// the 256 KiB that all annotations of an object share. A replica without room in it
	// is replaced once its pod is as old as the longest delay.
	maxFailures = 1000
)

// failure is the record of a replica, in the annotation v1.BackoffAnnotation:
//
//	{"web-1":{"uid":"<of the last pod that terminated>","failures":2,"since":"2026-01-02T15:04:05Z"}}
type failure struct {
	UID      types.UID   `json:"uid"`
	Failures int32       `json:"failures"`
	Since    metav1.Time `json:"since"`
}

// due is when the terminated pod may be replaced.
func (f failure) due() time.Time { return f.Since.Add(delay(f.Failures)) }

// makesWay is when the terminated pod in a place may be replaced.
func (r replica) makesWay(f failure, recorded bool) time.Time {
	if !recorded {
		return r.pod.CreationTimestamp.Add(longestDelay)
	}
	return f.due()
}

func delay(failures int32) time.Duration {
	if failures <= 1 {
		return 0
	}
	// Five doublings exceed the longest delay, and more could overflow.
	return min(firstDelay<<min(failures-2, 5), longestDelay)
}

// forgiven is when the record no longer counts, if the pod stays ready.
func (f failure) forgiven(pod *corev1.Pod) time.Time {
	since := f.Since.Time
	if pod.CreationTimestamp.After(since) {
		since = pod.CreationTimestamp.Time
	}
	return since.Add(forgiveAfter)
}

// recorded reads the annotation. An unreadable one counts as no record: at worst, one
// replacement has no delay.
func recorded(p *v1.Pod2) map[string]failure {
	var failures map[string]failure
	if err := json.Unmarshal([]byte(p.Annotations[v1.BackoffAnnotation]), &failures); err != nil {
		return nil
	}
	return failures
}

// failures returns the records as they must be written, by index of the replica.
func (v *view) failures() map[int]failure {
	now := metav1.NewTime(v.now.UTC().Truncate(time.Second))
	failures := map[int]failure{}
	for name, f := range recorded(v.pod2) {
		i, ok := v.place(name)
		if !ok || i >= v.slots || v.at(i).forgives(f, v.now) {
			continue
		}
		if f.Since.After(v.now) { // the clock was set back; do not wait for years
			f.Since = now
		}
		failures[i] = f
	}
	if len(failures) > maxFailures {
		for _, i := range slices.Sorted(maps.Keys(failures))[maxFailures:] {
			delete(failures, i)
		}
	}
	for i, r := range v.unsteady(v.slots) {
		if !r.ended() {
			continue
		}
		f, known := failures[i]
		if known && f.UID == r.pod.UID || !known && len(failures) >= maxFailures {
			continue
		}
		failures[i] = failure{UID: r.pod.UID, Failures: min(f.Failures, math.MaxInt32-1) + 1, Since: now}
	}
	return failures
}

// forgives reports whether the record no longer counts: a pod of another template
// replaces this one, or this one has stayed ready long enough.
func (r replica) forgives(f failure, now time.Time) bool {
	switch {
	case r.pod == nil || !r.own:
		return false
	case r.stale:
		return true
	}
	return r.live() && r.ready && !now.Before(f.forgiven(r.pod))
}

// backoff returns the write that stores the records in the annotation, nil if they are
// stored already.
func (v *view) backoff(failures map[int]failure) *Backoff {
	value := v.formatFailures(failures)
	if value == v.pod2.Annotations[v1.BackoffAnnotation] {
		return nil
	}
	return &Backoff{Value: value}
}

// formatFailures returns the same text for the same content: encoding/json sorts the
// keys.
func (v *view) formatFailures(failures map[int]failure) string {
	if len(failures) == 0 {
		return ""
	}
	named := make(map[string]failure, len(failures))
	for i, f := range failures {
		named[v.name(i)] = f
	}
	// Strings, numbers and times of four-digit years always encode.
	text, _ := json.Marshal(named)
	return string(text)
}
