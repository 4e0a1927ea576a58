package pod2

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
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
	given       map[string]given // by the hash of the revision
	refused     map[types.UID]Refusal
	unadoptable map[types.UID]Unadoptable
	names       *Names  // to be told in the status
	claims      []claim // that have a name of ours, in name order
	classes     []*storagev1.StorageClass
	podNames    map[string]bool // of all pods known, ours and others
	// keepers say, by place, who keeps a replica from its wanted address.
	keepers []string
	// held says that a Recreate waits for an address.
	held bool
	// kept are the places of replicas that are kept from their wanted address; one that is
	// lost comes back as it was.
	kept map[int]bool
	// cycles of replicas that want each other's addresses and that stay as they are.
	cycles []string
	// addressAt is when an address has rested that a replica waits for.
	addressAt time.Time
	// resizeFailed is what stopped the growth of a claim, "" nothing.
	resizeFailed string
	// replicas by place.
	replicas []replica
	// reached is the first place that the update has come to.
	reached int
	// surge are the replicas that an update has besides, now; their places follow.
	surge []replica
	// slots are both, one after the other: what is kept alive.
	slots []replica
	// beyond are pods with the names of other replicas that are not ours, or no longer.
	beyond []replica
	// surplus are our pods that have no place, in the order in which they go: ones
	// without an ordinal, then from the highest ordinal down.
	surplus []replica
}

// replica is a pod and what it is to us; without a pod, a replica that is missing.
type replica struct {
	pod         *corev1.Pod
	own         bool
	terminating bool
	over        bool
	ready       bool
	available   bool
	availableAt time.Time // when it is ready
	outdated    string    // why, "" when it is as the spec says
	moved       string    // how the request for addresses differs, "" when it does not
	stale       bool      // to become one that is not outdated
	step        step      // of a stale one
	relabelling *Relabelling
}

func look(s State) *view {
	v := &view{
		now: s.Now, pod2: s.Pod2, networks: s.Networks,
		ordinals: Ordinals(s.Pod2), revisions: readRevisions(s), changes: map[string]changeOrWhy{}, given: map[string]given{}, refused: s.Refused, unadoptable: s.Unadoptable,
		names: s.Names, claims: readClaims(s), classes: s.StorageClasses, podNames: map[string]bool{},
	}
	v.requests = newRequests(s.Pod2, v.revisions.update.content)
	v.replicas = make([]replica, v.ordinals.Count())
	surge := map[int]replica{}
	for _, pod := range s.Pods {
		v.podNames[pod.Name] = true
		place, placed := v.place(pod.Name)
		r := v.replica(pod, place, placed)
		switch {
		case placed && place < len(v.replicas):
			v.replicas[place] = r
		case placed && place < len(v.replicas)+v.maxSurge():
			surge[place] = r
		case r.own:
			v.surplus = append(v.surplus, r)
		}
		if _, named := ordinals.Parse(v.pod2.Name, pod.Name); named && !r.own && (!placed || place >= len(v.replicas)) {
			v.beyond = append(v.beyond, r)
		}
	}
	for place := range v.replicas {
		r := &v.replicas[place]
		r.stale = r.own && !r.terminating && r.outdated != "" && !v.frozen(place) && v.pod2.Spec.UpdateStrategy.Type != v1.OnDelete &&
			v.revisions.usable(v.revisions.update)
		if r.stale {
			r.step = v.step(*r)
		}
	}
	v.reached = v.reachedPlace()
	v.holdForAddresses(s.Holders)
	v.placeSurge(surge)
	v.slots = slices.Concat(v.replicas, v.surge)
	ordinal := func(r replica) int64 {
		if n, ok := ordinals.Parse(v.pod2.Name, r.pod.Name); ok {
			return int64(n)
		}
		return math.MaxInt64
	}
	slices.SortStableFunc(v.surplus, func(a, b replica) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	return v
}

// placeSurge has as many surge replicas as there are stale ones whose next step
// costs something, up to maxSurge; a pause keeps those there are. A pod of another revision in such a place has been
// scaled away: it goes first, and the place waits for it.
func (v *view) placeSurge(there map[int]replica) {
	wanted := 0
	for _, r := range v.replicas {
		if r.stale && r.step.costs {
			wanted++
		}
	}
	wanted = min(wanted, v.maxSurge())
	if v.pod2.Spec.Paused {
		for place, r := range there {
			if r.own {
				wanted = max(wanted, place-len(v.replicas)+1)
			}
		}
	}
	for i := range v.maxSurge() {
		r := there[len(v.replicas)+i]
		r.stale = r.own && r.outdated != "" && !v.pod2.Spec.Paused
		if i < wanted {
			v.surge = append(v.surge, r)
		}
		if r.stale || r.own && i >= wanted {
			v.surplus = append(v.surplus, r)
		}
	}
}

// place of the pod of that name, beyond the replicas too.
func (v *view) place(name string) (int, bool) {
	ordinal, ok := ordinals.Parse(v.pod2.Name, name)
	if !ok {
		return 0, false
	}
	return v.ordinals.Place(ordinal)
}

// nameTooLong says that the replica in a place can have no pod: its name is the hostname of
// the pod, too, and the API server would refuse it for ever. No rule of the schema says so,
// because it would make kubectl scale and autoscalers fail.
func (v *view) nameTooLong(place int) bool {
	return len(v.name(place)) > validation.DNS1123LabelMaxLength
}

func (v *view) name(place int) string { return ordinals.Name(v.pod2.Name, v.ordinals.At(place)) }

func (v *view) replica(pod *corev1.Pod, place int, placed bool) replica {
	r := replica{pod: pod, terminating: pod.DeletionTimestamp != nil, over: attachment.Over(pod)}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		r.own = ref.UID == v.pod2.UID
	}
	if c := attachment.Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue && restarting(pod) == "" {
		r.ready = true
		since := c.LastTransitionTime.Time
		for _, s := range pod.Status.ContainerStatuses { // a quick restart need not show in the condition
			if s.State.Running != nil && s.State.Running.StartedAt.After(since) {
				since = s.State.Running.StartedAt.Time
			}
		}
		r.availableAt = since.Add(time.Duration(v.pod2.Spec.MinReadySeconds) * time.Second)
		r.available = v.pod2.Spec.MinReadySeconds <= 0 || !v.now.Before(r.availableAt)
	}
	if placed {
		r.moved = v.moved(pod, place)
	}
	r.outdated = v.outdated(r)
	if r.own {
		r.relabelling = v.relabelling(r, v.givenTo(pod.Labels[v1.PodTemplateHashLabel]))
	}
	return r
}

// outdated says in which way the pod is not as one created now would be, "" when
// it is.
func (v *view) outdated(r replica) string {
	if r.pod.Labels[v1.PodTemplateHashLabel] != v.revisions.update.hash {
		return "template changed"
	}
	if r.moved == "" && recordedInPlace(r.pod).Resizing {
		return "resources of another template were requested"
	}
	return r.moved
}

// moved says how the pod's request for addresses differs. Interfaces and addresses are
// not in the hash: they differ by replica. What is compared is what we wrote: a
// policy that changes every pod's request at its creation would otherwise have us
// delete every pod. A pod without a place has none to be compared with.
func (v *view) moved(pod *corev1.Pod, place int) string {
	if is, want := pod.Annotations[v1.Pod2RequestAnnotation], v.requests.of(v.ordinals.At(place)); is != want {
		return fmt.Sprintf("request for addresses changed from %q to %q", is, want)
	}
	return ""
}

// frozen says that the replica in a place is not updated, and comes back with the
// current revision:
//
//	partition   those before it
//	paused      those before the first that the update has reached; and no other is
//	            touched
func (v *view) frozen(place int) bool {
	return v.pod2.Spec.Paused || place < v.partition()
}

// reachedPlace is the first place that an update has come to, from the last one
// down. A replica that is missing had what those on both sides of it have; where
// none is left of the old revision, it counts as not reached. (One that was broken
// is replaced before its turn, so that an updated one alone shows nothing. A
// Recreate has one revision at a time.)
//
//	web-0 old      web-1 missing  web-2 updated  web-3 missing    2
//	web-0 updated  web-1 missing  web-2 updated                   2
//	web-0 updated  web-1 missing  web-2 old                       3
func (v *view) reachedPlace() int {
	reached := len(v.replicas)
	if v.recreate() && v.oldPod() {
		return reached
	}
	old := slices.ContainsFunc(v.replicas, func(r replica) bool { return r.own && r.outdated != "" })
	for place, r := range slices.Backward(v.replicas) {
		switch {
		case r.own && r.outdated == "":
			reached = place
		case r.own || !old:
			return reached
		}
	}
	return reached
}

func (v *view) partition() int {
	if u := v.pod2.Spec.UpdateStrategy; u.RollingUpdate != nil && u.Type != v1.Recreate && u.Type != v1.OnDelete {
		return int(u.RollingUpdate.Partition)
	}
	return 0
}

// revisionFor is what a pod created now for a place is made from.
func (v *view) revisionFor(place int) *revision {
	if place < v.partition() || v.kept[place] || (v.pod2.Spec.Paused || v.held) && place < v.reached {
		return v.revisions.current
	}
	return v.revisions.update
}

// live pods are the ones that serve or will.
func (r replica) live() bool { return r.pod != nil && r.own && !r.terminating && !r.over }

// serves says that the pod counts as available.
func (r replica) serves() bool { return r.live() && r.available }

// ended says that the pod is to be replaced after a delay.
func (r replica) ended() bool {
	return r.pod != nil && r.own && !r.terminating && r.over && !r.stale
}

// all pods there are, ours and foreign ones in our places. A surge replica that is
// outdated is among the surplus as well, and counts there.
func (v *view) all() iter.Seq[replica] {
	return func(yield func(replica) bool) {
		for _, r := range v.replicas {
			if !yield(r) {
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

// owned is the number of all pods of ours, and of those that may be.
func (v *view) owned() int {
	n := 0
	for r := range v.all() {
		if r.own {
			n++
		}
	}
	for _, u := range v.unadoptable {
		if u.MayBeOurs {
			n++
		}
	}
	return n
}

func (v *view) recreate() bool { return v.pod2.Spec.UpdateStrategy.Type == v1.Recreate }

func (v *view) ordered() bool { return v.pod2.Spec.PodManagementPolicy == v1.OrderedReadyPodManagement }

// emptying says that a Recreate waits for the last old pod to be gone.
func (v *view) emptying() bool { return v.recreate() && !v.pod2.Spec.Paused && !v.held && v.oldPod() }

// oldPod says that a pod of ours of an old template exists, if only just.
func (v *view) oldPod() bool {
	for r := range v.all() {
		if r.own && r.outdated != "" {
			return true
		}
	}
	return false
}

// missingNetworks are those asked for that do not exist, in name order.
func (v *view) missingNetworks() []string {
	missing := slices.DeleteFunc(Networks(v.pod2), func(name string) bool {
		return slices.ContainsFunc(v.networks, func(n *v1.Network) bool { return n.Name == name })
	})
	slices.Sort(missing)
	return missing
}
