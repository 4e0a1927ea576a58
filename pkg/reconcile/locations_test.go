package reconcile

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/test/chance"
)

var blueSlices = Key{KindAddressSlice, ns, "blue"}

// The memory between syncs changes no decision: after each change of pods, Nodes and
// AddressBlocks, the State is the same as with everything read again.
func TestLocationsDecideNothing(t *testing.T) {
	remembered := 0
	chance.ForSeeds(t, 800, func(t *testing.T, dice *rand.Rand) {
		w := newWorld(t, located()...)
		w.r.Watches()
		var log []string
		for range 20 {
			for range dice.IntN(4) {
				log = append(log, w.locationHappens(dice))
			}
			kind := w.r.kinds.addressSlice
			before := kind.locations.of[blueSlices]
			got, _, err := kind.observe(blueSlices)
			want, _, errFull := newAddressSliceKind(w.r.shared).observe(blueSlices)
			if err != nil || errFull != nil {
				t.Fatal(err, errFull)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("after\n%s\nfrom memory %v %v\nfrom everything %v %v", strings.Join(log, "\n"), got.Locations, got.Unlocated, want.Locations, want.Unlocated)
				return
			}
			if before != nil && before == kind.locations.of[blueSlices] {
				remembered += len(want.Locations)
			}
		}
	})
	if remembered < 150 {
		t.Errorf("%d addresses were remembered: too few to prove anything", remembered)
	}
}

// locationHappens changes something in the caches, sends the events of informers, and
// describes the change.
func (w *world) locationHappens(dice *rand.Rand) string {
	kind, name := w.r.kinds.addressSlice, chance.Pick(dice, "a", "b", "c")
	switch dice.IntN(8) {
	case 0:
		node := newNode(chance.Pick(dice, "n1", "n2", "n3"), chance.Pick(dice, "192.0.2.1", "192.0.2.9"))
		if old, exists, _ := w.r.nodes.indexer.GetByKey(node.Name); exists && chance.One(dice, 3) {
			w.must(w.r.nodes.indexer.Delete(old))
		} else {
			w.must(w.r.nodes.indexer.Update(node))
		}
		kind.nodeChanged(node)
		return "event of node " + node.Name
	case 1:
		b := newBlock("blue", fmt.Sprintf("10.1.0.%d %s Bound", 2+dice.IntN(3), name), fmt.Sprintf("10.1.0.9 a %s", chance.Pick(dice, "Bound", "Reserved")))
		b.Spec.NetworkUID = chance.Pick(dice, b.Spec.NetworkUID, b.Spec.NetworkUID, "former")
		b.ResourceVersion = w.next()
		w.must(w.r.blocks.indexer.Update(b))
		return fmt.Sprintf("%s of %s has %v", b.Name, b.Spec.NetworkUID, b.Spec.Entries)
	case 2:
		old, exists, _ := w.r.blocks.indexer.GetByKey(path(ns, "blue-10.1.0.0"))
		if exists {
			w.must(w.r.blocks.indexer.Delete(old))
		}
		return "gone is the AddressBlock"
	}
	old, exists, _ := w.r.pods.indexer.GetByKey(path(ns, name))
	if exists && chance.One(dice, 4) {
		w.must(w.r.pods.indexer.Delete(old))
		kind.podChanged(old.(*corev1.Pod))
		return "gone is pod " + name
	}
	text := name + chance.Pick(dice, "", "", " uid=other") + chance.Pick(dice, "", "", " phase=Failed", " gated") +
		chance.Pick(dice, "", " node=n1", " node=n2", " node=n3") + chance.Pick(dice, "", " published=blue:10.1.0.2")
	pod := newPod(text)
	pod.ResourceVersion = w.next()
	w.must(w.r.pods.indexer.Update(pod))
	if !exists || !sameLocation(old, pod) {
		kind.podChanged(pod)
	}
	return "pod " + text
}

// With a thousand Networks in a namespace, an event costs each of them nothing.
func TestLocationsOfOtherNetworksRememberNothing(t *testing.T) {
	w := newWorld(t, located()...)
	w.r.Watches()
	kind := w.r.kinds.addressSlice
	if _, _, err := kind.observe(blueSlices); err != nil {
		t.Fatal(err)
	}
	kind.podChanged(newPod("other published=green:10.2.0.2"))
	if known := kind.locations.of[blueSlices]; len(known.changed) > 0 {
		t.Errorf("pods %v are remembered", known.changed)
	}
}

// BenchmarkObserveLocations reads the view of a Network after an event of one of its pods.
func BenchmarkObserveLocations(b *testing.B) {
	for _, size := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("bound=%d", size), func(b *testing.B) {
			w := newWorld(b, crowd(size)...)
			w.r.Watches()
			for _, block := range w.r.blocks.all() {
				block.Spec.NetworkUID = w.r.networks.get(ns, "blue").UID
			}
			w.must(w.r.nodes.indexer.Add(newNode("n1", "192.0.2.1")))
			for _, pod := range w.r.pods.all() {
				pod.Spec.NodeName = "n1"
			}
			pod := podOf(w, "pod-00000")
			b.ReportAllocs()
			for b.Loop() {
				w.r.kinds.addressSlice.podChanged(pod)
				if state, _, err := w.r.kinds.addressSlice.observe(blueSlices); err != nil || len(state.Locations) < size-1 {
					b.Fatal(len(state.Locations), err)
				}
			}
		})
	}
}
