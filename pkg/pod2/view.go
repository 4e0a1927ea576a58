package pod2

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// view is a State with every pod in its place.
type view struct {
	now         time.Time
	pod2        *v1.Pod2
	networks    []*v1.Network
	ordinals    ordinals.Range
	revisions   revisions
	requests    requests // of the update revision
	changes     map[string]changeOrWhy
	givenNow    given            // to pods of the update revision
	given       map[string]given // by the hash of another revision
	refused     map[types.UID]Refusal
	sidecars    map[types.UID]SidecarUpdate
	unadoptable map[types.UID]Unadoptable
	names       *Names  // for the status
	claims      []claim // with names for this Pod2, in name order
	classes     []*storagev1.StorageClass
	podNames    map[string]bool // of the pods of the State, of any owner, if there are claims
	// keepers names, by place, the holder that keeps the wanted address of a replica.
	keepers []string
	// held is true if a Recreate waits for an address.
	held bool
	// kept are the places of replicas whose wanted address is kept; if such a replica is
	// lost, it comes back unchanged.
	kept map[int]bool
	// cycles of replicas that want each other's addresses and cannot be updated.
	cycles []string
	// addressAt is when an address that a replica waits for has rested.
	addressAt time.Time
	// resizeFailed is why a PVC could not be resized, "" if nothing failed.
	resizeFailed string
	// replicas is how many there must be.
	replicas int
	// steady are the steady ones, by place. found are the others that have a pod, by place.
	steady steadyReplicas
	found  []found
	// others are all pods but the steady replicas, in name order.
	others []*corev1.Pod
	// none is a replica without a pod.
	none replica
	// unsteadyPlaces are those of the slots that are not steady, in order.
	unsteadyPlaces []int
	// counted has the numbers of all pods, steady ones included.
	counted tally
	// reached is the first place that the update has reached.
	reached int
	// surge are the extra replicas that the update has now; their places follow.
	surge []replica
	// slots is how many pods must exist: the replicas and then the surge replicas.
	slots int
	// beyond are pods with the names of other replicas that the Pod2 does not own, or no
	// longer.
	beyond []replica
	// surplus are the owned pods that have no place, in the order in which they are
	// deleted: those without an ordinal, then from the highest ordinal down.
	surplus []replica
}

func look(s State) *view { return lookFor(s, (*view).isSteady) }

// lookFor is look with another definition of steady, for a test: the decision is the same if no replica
// is steady.
func lookFor(s State, isSteady func(*view, int, replica) bool) *view {
	v := &view{
		now: s.Now, pod2: s.Pod2, networks: s.Networks,
		ordinals: Ordinals(s.Pod2), revisions: readRevisions(s), changes: map[string]changeOrWhy{}, given: map[string]given{}, refused: s.Refused, sidecars: s.Sidecars, unadoptable: s.Unadoptable,
		names: s.Names, claims: readClaims(s), classes: s.StorageClasses, podNames: map[string]bool{},
	}
	v.requests = newRequests(s.Pod2, v.revisions.update.content)
	v.replicas, v.none = v.ordinals.Count(), missing()
	if s.Steady != nil {
		v.steady = s.Steady.replicas.edit()
	} else {
		v.steady = steadyReplicas{own: map[int]bool{}}
	}
	v.found, v.others = make([]found, 0, len(s.Pods)), make([]*corev1.Pod, 0, len(s.Pods))
	surge := map[int]replica{}
	for _, f := range s.Facts.Of(s.Pods) {
		if len(v.claims) > 0 {
			v.podNames[f.pod.Name] = true
		}
		named, place, placed := v.named(f), 0, false
		if named {
			place, placed = v.ordinals.Place(f.ordinal)
		}
		r := v.replica(f, place, placed)
		switch {
		case placed && place < v.replicas && isSteady(v, place, r):
			v.steady.set(place, f)
			continue
		case placed && place < v.replicas:
			v.found = append(v.found, found{place, r})
		case placed && place < v.replicas+v.maxSurge():
			surge[place] = r
		case r.own:
			v.surplus = append(v.surplus, r)
		}
		v.others = append(v.others, f.pod)
		if named && !r.own && (!placed || place >= v.replicas) {
			v.beyond = append(v.beyond, r)
		}
	}
	slices.SortFunc(v.found, func(a, b found) int { return cmp.Compare(a.place, b.place) })
	v.unsteadyPlaces = v.steady.others(v.replicas)
	for i := range v.found {
		r := &v.found[i].replica
		r.stale = r.own && !r.terminating && r.outdated != "" && !v.frozen(v.found[i].place) && v.pod2.Spec.UpdateStrategy.Type != v1.OnDelete &&
			v.revisions.usable(v.revisions.update)
		if r.stale {
			next := v.step(*r)
			r.step = &next
		}
	}
	v.reached = v.reachedPlace()
	v.holdForAddresses(s.Holders)
	v.placeSurge(surge)
	v.slots = v.replicas + len(v.surge)
	for place := v.replicas; place < v.slots; place++ {
		v.unsteadyPlaces = append(v.unsteadyPlaces, place)
	}
	v.counted = v.tally()
	ordinal := func(r replica) int64 {
		if v.named(r.fact) {
			return int64(r.ordinal)
		}
		return math.MaxInt64
	}
	slices.SortStableFunc(v.surplus, func(a, b replica) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	return v
}

// placeSurge sets as many surge replicas as there are stale replicas whose next step
// costs something, at most maxSurge. A pause keeps those that exist. A pod of another
// revision in such a place was scaled down: it is deleted first, and the place waits for
// it.
func (v *view) placeSurge(there map[int]replica) {
	wanted := 0
	for _, r := range v.unsteady(v.replicas) {
		if r.stale && r.step.costs {
			wanted++
		}
	}
	wanted = min(wanted, v.maxSurge())
	if v.pod2.Spec.Paused {
		for place, r := range there {
			if r.own {
				wanted = max(wanted, place-v.replicas+1)
			}
		}
	}
	for i := range v.maxSurge() {
		r, ok := there[v.replicas+i]
		if !ok {
			r = v.none
		}
		r.stale = r.own && r.outdated != "" && !v.pod2.Spec.Paused
		if i < wanted {
			v.surge = append(v.surge, r)
		}
		if r.stale || r.own && i >= wanted {
			v.surplus = append(v.surplus, r)
		}
	}
}

// named reports whether a pod has the name of a replica, with any ordinal.
func (v *view) named(f *fact) bool { return f.prefix == v.pod2.Name }

// place returns the place of the pod with that name, beyond the replicas too.
func (v *view) place(name string) (int, bool) {
	ordinal, ok := ordinals.Parse(v.pod2.Name, name)
	if !ok {
		return 0, false
	}
	return v.ordinals.Place(ordinal)
}

// nameTooLong reports whether the replica in a place cannot have a pod: its name is also
// the hostname of the pod, and the API server would refuse every attempt. No rule of the
// schema says so, because it would make kubectl scale and autoscalers fail.
func (v *view) nameTooLong(place int) bool {
	return len(v.name(place)) > validation.DNS1123LabelMaxLength
}

func (v *view) name(place int) string { return ordinals.Name(v.pod2.Name, v.ordinals.At(place)) }

// frozen reports whether the replica in a place is not updated, and comes back with the
// current revision:
//
//	partition   those before it
//	paused      those before the first that the update has reached; no other replica is
//	            touched
func (v *view) frozen(place int) bool {
	return v.pod2.Spec.Paused || place < v.partition()
}

// reachedPlace returns the first place that an update has reached, counting from the last
// one down. A missing replica counts like those on both sides of it; if no replica of the
// old revision is left, it counts as not reached. (Broken replicas are replaced before
// their turn, so one updated replica proves nothing. A Recreate has one revision at a
// time.)
//
//	web-0 old      web-1 missing  web-2 updated  web-3 missing    2
//	web-0 updated  web-1 missing  web-2 updated                   2
//	web-0 updated  web-1 missing  web-2 old                       3
func (v *view) reachedPlace() int {
	reached := v.replicas
	if v.recreate() && v.oldPod() {
		return reached
	}
	old := false
	for _, r := range v.unsteady(v.replicas) {
		old = old || r.own && r.outdated != ""
	}
	end := v.replicas // of the places that are not looked at yet
	for _, place := range slices.Backward(v.unsteadyPlaces) {
		if place+1 < end { // steady ones follow
			reached = place + 1
		}
		switch r := v.at(place); {
		case r.own && r.outdated == "":
			reached = place
		case r.own || !old:
			return reached
		}
		end = place
	}
	if end > 0 {
		return 0
	}
	return reached
}

func (v *view) partition() int {
	if u := v.pod2.Spec.UpdateStrategy; u.RollingUpdate != nil && u.Type != v1.Recreate && u.Type != v1.OnDelete {
		return int(u.RollingUpdate.Partition)
	}
	return 0
}

// revisionFor returns the revision of a pod created now in a place.
func (v *view) revisionFor(place int) *revision {
	if place < v.partition() || v.kept[place] || (v.pod2.Spec.Paused || v.held) && place < v.reached {
		return v.revisions.current
	}
	return v.revisions.update
}

// owned returns the number of pods that the Pod2 owns or may own.
func (v *view) owned() int {
	n := int(v.counted.owned)
	for _, u := range v.unadoptable {
		if u.MayBeOurs {
			n++
		}
	}
	return n
}

func (v *view) recreate() bool { return v.pod2.Spec.UpdateStrategy.Type == v1.Recreate }

func (v *view) ordered() bool { return v.pod2.Spec.PodManagementPolicy == v1.OrderedReadyPodManagement }

// emptying reports whether a Recreate waits for the last old pod to be gone.
func (v *view) emptying() bool { return v.recreate() && !v.pod2.Spec.Paused && !v.held && v.oldPod() }

// oldPod reports whether an owned pod of an old template exists.
func (v *view) oldPod() bool {
	for r := range v.allUnsteady() {
		if r.own && r.outdated != "" {
			return true
		}
	}
	return false
}

// missingNetworks returns the requested Networks that do not exist, in name order.
func (v *view) missingNetworks() []string {
	missing := slices.DeleteFunc(Networks(v.pod2), func(name string) bool {
		return slices.ContainsFunc(v.networks, func(n *v1.Network) bool { return n.Name == name })
	})
	slices.Sort(missing)
	return missing
}
