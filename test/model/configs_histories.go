package model

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// earlierHolders returns the configurations of the history of addresses. Time passes in steps as
// long as the controller collects records.
func earlierHolders() []*Config {
	kept := func(limit, rest int32) func(*World) {
		return func(w *World) {
			n := blue("10.0.0.0/29")
			n.Finalizers = []string{v1.InUseFinalizer}
			n.Spec.ReuseDelaySeconds = ptr.To(rest)
			n.Spec.AddressHistory = &v1.AddressHistoryBounds{Limit: ptr.To(limit), MaxAgeSeconds: ptr.To[int32](86400)}
			w.Create(Networks, n)
			w.Create(Blocks, &v1.AddressBlock{
				ObjectMeta: metav1.ObjectMeta{Name: block0, Labels: map[string]string{v1.NetworkLabel: "blue"}},
				Spec:       v1.AddressBlockSpec{Network: "blue", NetworkUID: Get[*v1.Network](w, Networks, "blue").UID, CIDR: "10.0.0.0/24"},
			})
			hands(v1.AddressBound, 1).Do(w)
		}
	}
	of := func(c Config) *Config {
		c.Keys, c.Tick, c.Step, c.Numbered = []Key{{"AddressHistory", "blue"}}, time.Second, 8, true
		return &c
	}
	return []*Config{
		of(Config{
			Name: "history-crash", Covers: "an address changes hands at once while the controller writes its history and crashes",
			Controllers: 1, OneWriter: true, Crashes: 2, LostAnswers: 1, OldViews: 1, Ticks: 1,
			Setup: kept(8, 0), Edits: []Edit{hands(v1.AddressBound, 2)},
		}),
		of(Config{
			Name: "history-rest", Covers: "an address rests, and another controller takes over the history",
			Controllers: 2, Ticks: 2,
			Setup: kept(8, 60), Edits: []Edit{hands(v1.AddressResting, 1), hands(v1.AddressBound, 1)},
		}),
		of(Config{
			Name: "history-bounds", Covers: "more pods had an address than the limit",
			Controllers: 1, OneWriter: true, Crashes: 1, Ticks: 2,
			Setup: kept(2, 0), Edits: []Edit{hands(v1.AddressBound, 3)},
		}),
		of(Config{
			Name: "history-deleted", Covers: "somebody deletes an AddressHistory",
			Controllers: 1, OneWriter: true, Crashes: 1, Ticks: 2,
			Setup: kept(4, 0), Edits: []Edit{hands(v1.AddressBound, 2), deletes(Histories, "blue-0"), deletes(Histories, "blue-1")},
		}),
		of(Config{
			Name: "history-network", Covers: "a Network with a history is deleted and recreated",
			Controllers: 1, OneWriter: true, Crashes: 1, OldViews: 1, Ticks: 1,
			Setup: kept(8, 0), Edits: []Edit{hands(v1.AddressBound, 1), deletes(Networks, "blue"), unused(), again(kept(8, 0))},
		}),
	}
}

// hands gives the first address to a new pod web-0, or takes it back. That takes a second.
func hands(to v1.AddressState, times uint8) Edit {
	const pod = "web-0"
	return Edit{fmt.Sprintf("makes 10.0.0.2 of %s %s", pod, to), times, func(w *World) bool {
		was := Get[*v1.AddressBlock](w, Blocks, block0)
		if was == nil || to != v1.AddressBound && (len(was.Spec.Entries) == 0 || was.Spec.Entries[0].State != v1.AddressBound) {
			return false
		}
		w.s.ticks++
		is, now := was.DeepCopy(), w.m.now(w.s)
		e := v1.AddressEntry{Address: "10.0.0.2", State: to, Pod: pod, Since: metav1.NewTime(now)}
		if to == v1.AddressBound {
			w.s.uids++
			e.PodUID = uidText(w.s.uids)
		}
		is.Spec.Entries = []v1.AddressEntry{e}
		w.s.ended = append(w.s.ended, spec.Ended(was, is, now)...)
		w.Put(Blocks, is)
		return true
	}}
}

// unused removes the finalizer of a terminating Network, and its AddressBlock.
func unused() Edit {
	return Edit{"removes the finalizer of Network blue", 1, func(w *World) bool {
		n := Get[*v1.Network](w, Networks, "blue")
		if n == nil || n.DeletionTimestamp == nil {
			return false
		}
		_, block := w.s.find(Blocks, block0)
		w.s.nextVersion(Blocks)
		w.s.remove(block)
		n.Finalizers, w.s.ended = nil, nil
		w.Put(Networks, n)
		return true
	}}
}

// again creates a Network with the name of one that was deleted.
func again(create func(*World)) Edit {
	return Edit{"creates networks blue", 1, func(w *World) bool {
		if _, old := w.s.find(Networks, "blue"); old != nil {
			return false
		}
		create(w)
		return true
	}}
}
