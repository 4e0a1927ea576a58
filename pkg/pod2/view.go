package pod2

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// view is a State with every pod in its place.
type view struct {
	now      time.Time
	pod2     *v1.Pod2
	networks []*v1.Network
	hash     string
	requests requests
	start    int32
	// replicas by index: ordinal - start.
	replicas []replica
	// surplus are our pods that have no replica's name, in the order in which they
	// go: ones without an ordinal, then from the highest ordinal down.
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
}

func look(s State) *view {
	v := &view{
		now: s.Now, pod2: s.Pod2, networks: s.Networks,
		hash: RevisionHash(s.Pod2), requests: newRequests(s.Pod2),
		replicas: make([]replica, max(ptr.Deref(s.Pod2.Spec.Replicas, 1), 0)),
	}
	if s.Pod2.Spec.Ordinals != nil {
		v.start = s.Pod2.Spec.Ordinals.Start
	}
	for _, pod := range s.Pods {
		if i, ok := v.index(pod.Name); ok {
			v.replicas[i] = v.replica(pod)
			v.replicas[i].outdated = v.outdated(pod, i)
		} else if r := v.replica(pod); r.own {
			r.outdated = v.outdated(pod, -1)
			v.surplus = append(v.surplus, r)
		}
	}
	ordinal := func(r replica) int64 {
		if n, ok := Ordinal(v.pod2.Name, r.pod.Name); ok {
			return int64(n)
		}
		return math.MaxInt64
	}
	slices.SortStableFunc(v.surplus, func(a, b replica) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	return v
}

// index is the place of the replica of that name.
func (v *view) index(name string) (int, bool) {
	ordinal, ok := Ordinal(v.pod2.Name, name)
	i := int(ordinal) - int(v.start)
	return i, ok && i >= 0 && i < len(v.replicas)
}

func (v *view) name(index int) string { return ReplicaName(v.pod2.Name, v.start+int32(index)) }

func (v *view) replica(pod *corev1.Pod) replica {
	r := replica{pod: pod, terminating: pod.DeletionTimestamp != nil, over: attachment.Over(pod)}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		r.own = ref.UID == v.pod2.UID
	}
	if c := podCondition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		r.ready = true
		r.availableAt = c.LastTransitionTime.Add(time.Duration(v.pod2.Spec.MinReadySeconds) * time.Second)
		r.available = v.pod2.Spec.MinReadySeconds <= 0 || !v.now.Before(r.availableAt)
	}
	return r
}

// outdated says in which way the pod is not as one created now would be, "" when
// it is. Wanted addresses are not in the hash: they differ by replica. What is
// compared is what we wrote: a policy that changes every pod's request at its
// creation would otherwise have us delete every pod. A pod that has no replica's
// name (index -1) has none to be compared with.
func (v *view) outdated(pod *corev1.Pod, index int) string {
	if pod.Labels[v1.PodTemplateHashLabel] != v.hash {
		return "template changed"
	}
	if index < 0 {
		return ""
	}
	if is, want := pod.Annotations[v1.Pod2RequestAnnotation], v.requests.at(index); is != want {
		return fmt.Sprintf("request for addresses changed from %q to %q", is, want)
	}
	return ""
}

// live pods are the ones that serve or will.
func (r replica) live() bool { return r.pod != nil && r.own && !r.terminating && !r.over }

// serves says that the pod counts as available.
func (r replica) serves() bool { return r.live() && r.available }

// stale says that the pod is to make way for one of the new template.
func (r replica) stale() bool {
	return r.pod != nil && r.own && !r.terminating && r.outdated != ""
}

// ended says that the pod is to be replaced after a delay.
func (r replica) ended() bool {
	return r.pod != nil && r.own && !r.terminating && r.over && r.outdated == ""
}

// owned is the number of all pods of ours.
func (v *view) owned() int {
	n := len(v.surplus)
	for i := range v.replicas {
		if v.replicas[i].own {
			n++
		}
	}
	return n
}

func (v *view) recreate() bool { return v.pod2.Spec.UpdateStrategy.Type == v1.Recreate }

// oldPod says that a pod of ours of an old template exists, if only just.
func (v *view) oldPod() bool {
	old := func(r replica) bool { return r.own && r.outdated != "" }
	return slices.ContainsFunc(v.replicas, old) || slices.ContainsFunc(v.surplus, old)
}

// budget is how many pods that serve may be deleted now. A Recreate has no bound.
type budget struct {
	left      int
	unbounded bool
}

// allows says whether the pod may go, and counts it if it is a loss.
func (b *budget) allows(r replica) bool {
	if !r.serves() || b.unbounded {
		return true
	}
	if b.left <= 0 {
		return false
	}
	b.left--
	return true
}

// spare counts all of our pods that serve, ones without a replica's name too: to
// whoever they serve, a name makes no difference.
//
//	replicas 3, maxUnavailable 1, web-0 and web-1 not ready, web-2 to web-4 ready:
//	2 of 3 have to serve, so web-4 may go, and web-3 once another is ready
func (v *view) spare() *budget {
	available := 0
	for _, r := range slices.Concat(v.replicas, v.surplus) {
		if r.serves() {
			available++
		}
	}
	return &budget{left: available - (len(v.replicas) - v.maxUnavailable()), unbounded: v.recreate()}
}

// maxUnavailable is at least 1, since nothing else would let an update proceed.
func (v *view) maxUnavailable() int {
	rolling := v.pod2.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, len(v.replicas), false)
	if err != nil { // the schema refuses such text
		return 1
	}
	return max(n, 1)
}

// missingNetworks are those asked for that do not exist, in name order.
func (v *view) missingNetworks() []string {
	missing := slices.DeleteFunc(Networks(v.pod2), func(name string) bool {
		return slices.ContainsFunc(v.networks, func(n *v1.Network) bool { return n.Name == name })
	})
	slices.Sort(missing)
	return missing
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
