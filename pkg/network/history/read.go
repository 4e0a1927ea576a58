package history

import (
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Reading is all that the cluster knows about the holders of the addresses of a Network.
type Reading struct {
	// Since is the time at which the history begins. Earlier holders are not known. It is zero
	// without a history.
	Since time.Time
	// Records are in the order of their ends, and then of their addresses. Those of the current
	// holders come last: their Until is zero. A deleted AddressHistory is a gap, like one that
	// the controller recorded.
	Records []v1.AddressRecord
}

// Read merges the AddressHistories of a Network with its AddressBlocks. It leaves out records that
// are too old.
func Read(n *v1.Network, histories []*v1.AddressHistory, blocks []*v1.AddressBlock, now time.Time) Reading {
	var is Reading
	own := Sorted(n, histories)
	_, age := Bounds(n)
	oldest := now.Add(-age)
	for i, h := range own {
		if i == 0 {
			is.Since = h.Spec.Since.Time
		} else if number(h) != number(own[i-1])+1 {
			is.Records = append(is.Records, v1.AddressRecord{Gap: true, From: &own[i-1].Spec.Through, Until: h.Spec.Since})
		}
		for _, r := range h.Spec.Records {
			if r.Until.After(oldest) {
				is.Records = append(is.Records, r)
			}
		}
	}
	if len(own) > 0 && is.Since.Before(oldest) {
		is.Since = oldest
	}
	slices.SortStableFunc(is.Records, byEnd)
	var current []v1.AddressRecord
	for _, b := range blocks {
		for _, e := range b.Spec.Entries {
			if b.Spec.NetworkUID == n.UID && e.State == v1.AddressBound {
				current = append(current, tenure(e, "", metav1.Time{}))
			}
		}
	}
	slices.SortStableFunc(current, func(a, b v1.AddressRecord) int {
		first, _ := netip.ParseAddr(a.Address)
		second, _ := netip.ParseAddr(b.Address)
		return first.Compare(second)
	})
	is.Records = append(is.Records, current...)
	return is
}

// Of leaves the records of an address or a pod, and the gaps.
func (r Reading) Of(addressOrPod string) Reading {
	r.Records = slices.DeleteFunc(slices.Clone(r.Records), func(is v1.AddressRecord) bool {
		return !is.Gap && is.Address != addressOrPod && is.Pod != addressOrPod
	})
	return r
}

// At leaves the records of one time, and the gaps. A record without a beginning may be of any time
// before its end.
func (r Reading) At(at time.Time) Reading {
	r.Records = slices.DeleteFunc(slices.Clone(r.Records), func(is v1.AddressRecord) bool {
		ended := !is.Until.IsZero() && !is.Until.After(at)
		return is.From != nil && is.From.After(at) || ended && (!is.Gap || !is.Until.Truncate(time.Second).Equal(at.Truncate(time.Second)))
	})
	return r
}
