package pod2

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// budget is how many available pods may be taken away now. A Recreate has no bound.
type budget struct {
	left      int
	unbounded bool
}

// enough reports whether the budget covers all pods that a step needs, before it takes
// one.
func (b *budget) enough(s step) bool { return b.unbounded || s.needs == 0 || b.left >= s.needs }

// allows reports whether the pod may be touched, and subtracts it from the budget if it
// is a loss.
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

// allowsUpdate is allows for an update. A replica that is Ready, but not yet for
// minReadySeconds, is unavailable. It is taken only while fewer than maxUnavailable
// replicas are unavailable, itself included. Otherwise a second update right after the
// first would take all replicas at once.
func (b *budget) allowsUpdate(r replica, costs bool) bool {
	if young := r.live() && r.ready && !r.available; young && costs && !b.unbounded && b.left <= 0 {
		return false
	}
	return b.allows(r, costs)
}

// spare counts all available pods that the Pod2 owns, also surge replicas and pods
// without a place: their clients do not care about names.
//
//	replicas 3, maxUnavailable 1, web-0 and web-1 not ready, web-2 to web-4 ready:
//	2 of 3 must be available, so web-4 may be deleted, and web-3 once another is ready
func (v *view) spare() *budget {
	return &budget{left: int(v.counted.available) - v.leastAvailable(), unbounded: v.recreate()}
}

func (v *view) leastAvailable() int { return v.replicas - v.maxUnavailable() }

// maxSurge is 0 except for a RollingUpdate.
func (v *view) maxSurge() int {
	return v.bound(func(r *v1.Pod2RollingUpdate) *intstr.IntOrString { return r.MaxSurge }, 0, true)
}

// maxUnavailable is at least 1 if there is no surge, because otherwise no update could
// proceed.
func (v *view) maxUnavailable() int {
	n := v.bound(func(r *v1.Pod2RollingUpdate) *intstr.IntOrString { return r.MaxUnavailable }, 1, false)
	if v.maxSurge() == 0 {
		return max(n, 1)
	}
	return n
}

// bound returns a number, or a percentage of the replicas.
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
