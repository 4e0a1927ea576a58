package pod2

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// isSteady reports whether a replica is available, matches the spec, has its labels and PVCs, and gets
// no image of a Sidecar now. No decision changes such a pod or its PVCs, and no message names them. Most
// replicas are steady most of the time, so a decision looks at the others only. Records of failures
// concern steady replicas too.
func (v *view) isSteady(place int, r replica) bool {
	if !r.serves() || r.outdated != "" || r.relabelling != nil || r.gated || r.unschedulable != nil || !v.settledClaims(place) {
		return false
	}
	if len(v.sidecars) == 0 {
		return true // without a look at the pod, which is slower to read than the fact
	}
	_, updates := v.sidecars[r.pod.UID]
	return !updates
}

// Steady are the steady replicas of one decision, for the next one: see State.Steady. It never
// changes.
type Steady struct {
	replicas  steadyReplicas
	ordinals  ordinals.Range
	now       time.Time
	pod2      *v1.Pod2
	revisions []*appsv1.ControllerRevision
}

// steadyOf returns nil if no revision has the content of the spec yet.
func (v *view) steadyOf(s State) *Steady {
	if !v.revisions.update.exists {
		return nil
	}
	return &Steady{v.steady, v.ordinals, s.Now, s.Pod2, s.Revisions}
}

// Fits reports whether the replicas are steady in a later State, too, if their pods are unchanged. It
// is false for nil. A State with Sidecars must have all pods. A spec has another generation even if only
// a quantity is written in another way, which makes another revision.
func (k *Steady) Fits(s State) bool {
	return k != nil && k.pod2.UID == s.Pod2.UID && k.pod2.Generation == s.Pod2.Generation && !s.Now.Before(k.now) && slices.Equal(k.revisions, s.Revisions) &&
		maps.Equal(k.pod2.Labels, s.Pod2.Labels)
}

// Count returns how many there are.
func (k *Steady) Count() int {
	if k == nil {
		return 0
	}
	return k.replicas.count
}

// Others returns the names of the replicas that are not steady, with or without a pod.
func (k *Steady) Others() []string {
	var names []string
	for _, place := range k.replicas.others(k.ordinals.Count()) {
		names = append(names, ordinals.Name(k.pod2.Name, k.ordinals.At(place)))
	}
	return names
}

// Without returns the replicas except those with the names.
func (k *Steady) Without(names map[string]bool) *Steady {
	without := *k
	without.replicas = k.replicas.edit()
	for name := range names {
		if place, ok := k.place(name); ok {
			without.replicas.set(place, nil)
		}
	}
	return &without
}

// Among returns the replicas whose pods are among those of a view, in the same version, and the other
// pods of the view, in its order.
func (k *Steady) Among(pods []*corev1.Pod) (among *Steady, others []*corev1.Pod) {
	copied := *k
	copied.replicas = steadyReplicas{}.edit()
	for _, pod := range pods {
		if place, ok := k.place(pod.Name); ok {
			if f := k.replicas.at(place); f != nil && f.pod == pod {
				copied.replicas.set(place, f)
				continue
			}
		}
		others = append(others, pod)
	}
	return &copied, others
}

// place returns the place of the pod with that name, of a replica or beyond.
func (k *Steady) place(name string) (int, bool) {
	ordinal, ok := ordinals.Parse(k.pod2.Name, name)
	if !ok {
		return 0, false
	}
	return k.ordinals.Place(ordinal)
}

// found is a replica that has a pod and is not steady.
type found struct {
	place int
	replica
}

// at returns the replica or surge replica in a place. Only one that is not steady may be changed.
func (v *view) at(place int) *replica {
	if place >= v.replicas {
		return &v.surge[place-v.replicas]
	}
	if f := v.steady.at(place); f != nil {
		return &replica{fact: f, own: true, available: true}
	}
	if i, ok := slices.BinarySearchFunc(v.found, place, func(f found, place int) int { return cmp.Compare(f.place, place) }); ok {
		return &v.found[i].replica
	}
	return &v.none
}

// unsteady returns the replicas that are not steady, with their places, before an end: v.replicas or
// v.slots. A surge replica never counts as steady.
func (v *view) unsteady(end int) iter.Seq2[int, replica] {
	return func(yield func(int, replica) bool) {
		next := 0
		for _, place := range v.unsteadyPlaces {
			r := v.none
			switch {
			case place >= end:
				return
			case place >= v.replicas:
				r = v.surge[place-v.replicas]
			case next < len(v.found) && v.found[next].place == place:
				r = v.found[next].replica
				next++
			}
			if !yield(place, r) {
				return
			}
		}
	}
}

// allUnsteady returns every pod but the steady replicas: the owned ones, and those of other owners in
// this Pod2's places. An outdated surge replica is also in the surplus, and counts there.
func (v *view) allUnsteady() iter.Seq[replica] {
	return func(yield func(replica) bool) {
		for i := range v.found {
			if !yield(v.found[i].replica) {
				return
			}
		}
		for _, r := range v.surge {
			if !r.stale && !yield(r) {
				return
			}
		}
		for _, r := range v.surplus {
			if !yield(r) {
				return
			}
		}
	}
}
