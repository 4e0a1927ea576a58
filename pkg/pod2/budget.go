package pod2

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// budget is how many pods that serve may be taken away now. A Recreate has no bound.
type budget struct {
	left      int
	unbounded bool
}

// enough says whether so many more may go as a step needs, before one of them does.
func (b *budget) enough(s step) bool { return b.unbounded || s.needs == 0 || b.left >= s.needs }

// allows says whether the pod may be touched, and counts it if it is a loss.
func (b *budget) allows(r replica, costs bool) bool {
	if !r.serves() || b.unbounded || !costs {
		return true
	}
	if b.left <= 0 {
		return false
	}
	b.left--
	return true
}

// allowsUpdate is allows for an update. It takes a replica that is Ready, but not for
// minReadySeconds yet, only while fewer than maxUnavailable are unavailable, this one
// included. Otherwise a second update right after the first would take them all at once.
func (b *budget) allowsUpdate(r replica, costs bool) bool {
	if young := r.live() && r.ready && !r.available; young && costs && !b.unbounded && b.left <= 0 {
		return false
	}
	return b.allows(r, costs)
}

// spare counts all of our pods that serve, surge replicas and ones without a
// place too: to whoever they serve, a name makes no difference.
//
//	replicas 3, maxUnavailable 1, web-0 and web-1 not ready, web-2 to web-4 ready:
//	2 of 3 have to serve, so web-4 may go, and web-3 once another is ready
func (v *view) spare() *budget {
	available := 0
	for r := range v.all() {
		if r.serves() {
			available++
		}
	}
	return &budget{left: available - v.leastAvailable(), unbounded: v.recreate()}
}

func (v *view) leastAvailable() int { return len(v.replicas) - v.maxUnavailable() }

// maxSurge is 0 for all but a RollingUpdate.
func (v *view) maxSurge() int {
	return v.bound(func(r *v1.Pod2RollingUpdate) *intstr.IntOrString { return r.MaxSurge }, 0, true)
}

// maxUnavailable is at least 1 where there is no surge, since nothing else would
// let an update proceed.
func (v *view) maxUnavailable() int {
	n := v.bound(func(r *v1.Pod2RollingUpdate) *intstr.IntOrString { return r.MaxUnavailable }, 1, false)
	if v.maxSurge() == 0 {
		return max(n, 1)
	}
	return n
}

// bound is a number, or a percentage of replicas.
func (v *view) bound(of func(*v1.Pod2RollingUpdate) *intstr.IntOrString, unset int, roundUp bool) int {
	rolling := v.pod2.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || of(rolling) == nil {
		return unset
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(of(rolling), v.ordinals.Count(), roundUp)
	if err != nil { // the schema refuses such text
		return unset
	}
	return max(n, 0)
}
