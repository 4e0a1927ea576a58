package pod2

import (
	"fmt"
	"time"
)

// replica is a pod and its state for this Pod2; without a pod, a missing replica. It is small,
// because each decision looks at all replicas many times.
type replica struct {
	*fact
	own         bool
	available   bool
	stale       bool   // to be updated
	outdated    string // why, "" if it matches the spec
	moved       string // how the request for addresses differs, "" if it does not
	step        *step  // if it is stale
	relabelling *Relabelling
}

// missing is a replica without a pod.
func missing() replica { return replica{fact: &fact{}} }

func (v *view) replica(f *fact, place int, placed bool) replica {
	r := replica{fact: f, own: f.controller != nil && *f.controller == v.pod2.UID}
	r.available = r.ready && (v.pod2.Spec.MinReadySeconds <= 0 || !v.now.Before(v.availableAt(r)))
	if placed {
		r.moved = v.moved(f, place)
	}
	r.outdated = v.outdated(r)
	if r.own {
		r.relabelling = v.relabelling(r, v.givenTo(f.hash))
	}
	return r
}

// availableAt is when a pod becomes available. It must be Ready.
func (v *view) availableAt(r replica) time.Time {
	return r.since.Add(time.Duration(v.pod2.Spec.MinReadySeconds) * time.Second)
}

// outdated returns how the pod differs from one created now, "" if it does not.
func (v *view) outdated(r replica) string {
	if r.hash != v.revisions.update.hash {
		return "template changed"
	}
	if r.moved == "" && r.record.Resizing {
		return "resources of another template were requested"
	}
	return r.moved
}

// moved returns how the pod's request for addresses differs. Interfaces and addresses are
// not in the hash, because they differ by replica. It compares the request that the
// controller wrote. Otherwise a policy that changes every pod's request at creation would
// make the controller delete every pod. A pod without a place has no request to compare
// with.
func (v *view) moved(f *fact, place int) string {
	if is, want := f.request, v.requests.of(v.ordinals.At(place)); is != want {
		return fmt.Sprintf("request for addresses changed from %q to %q", is, want)
	}
	return ""
}

// live reports whether the pod serves or soon will.
func (r replica) live() bool { return r.pod != nil && r.own && !r.terminating && !r.over }

// serves reports whether the pod counts as available.
func (r replica) serves() bool { return r.live() && r.available }

// ended reports whether the pod terminated and is to be replaced after a delay.
func (r replica) ended() bool {
	return r.pod != nil && r.own && !r.terminating && r.over && !r.stale
}
