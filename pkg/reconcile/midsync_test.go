package reconcile

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// watchedIndexer calls ahead before each read.
type watchedIndexer struct {
	cache.Indexer
	before func()
}

func (i watchedIndexer) ByIndex(index, value string) ([]any, error) {
	i.before()
	return i.Indexer.ByIndex(index, value)
}

func (i watchedIndexer) GetByKey(key string) (any, bool, error) {
	i.before()
	return i.Indexer.GetByKey(key)
}

// catchUpBefore lets all caches catch up with the server before the n-th read of
// AddressBlocks or pods. Informers do the same: they wait for no sync. It counts the
// reads.
func (w *world) catchUpBefore(n int) (reads *int) {
	reads = new(int)
	before := func() {
		if *reads++; *reads == n {
			w.catchUp()
		}
	}
	w.r.blocks.indexer = watchedIndexer{w.r.blocks.indexer, before}
	w.r.pods.indexer = watchedIndexer{w.r.pods.indexer, before}
	return reads
}

func withUID(b *v1.AddressBlock, pod, uid string) *v1.AddressBlock {
	for i := range b.Spec.Entries {
		if b.Spec.Entries[i].Pod == pod {
			b.Spec.Entries[i].PodUID = newPod(pod + " uid=" + uid).UID
		}
	}
	return b
}

// AddressBlocks are read before pods. A pod with an entry was created earlier, so if it
// is not among the pods it has terminated. In the other order, a pod that is created and
// bound in between would count as gone. A live read would keep its entry. The test fails
// if such a read is made and finds the pod, because that shows the wrong decision.
func TestNoPodIsTakenForGoneThatComesDuringASync(t *testing.T) {
	const bound = "10.1.0.3 x Bound"
	for _, row := range []struct {
		name   string
		before []runtime.Object
		during func(w *world)
	}{
		{"the first entry of a block", []runtime.Object{newNetwork("blue")}, func(w *world) {
			w.add(newPod("x gated on=blue"), newBlock("blue", bound))
		}},
		{"one more entry", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a on=blue published=blue:10.1.0.2")}, func(w *world) {
			w.add(newPod("x gated on=blue"))
			w.change(newBlock("blue", "10.1.0.2 a Bound", bound))
		}},
		{"another pod with the same name", []runtime.Object{newNetwork("blue"), newBlock("blue", bound), newPod("x on=blue published=blue:10.1.0.3")}, func(w *world) {
			w.remove(newPod("x"))
			w.add(newPod("x gated on=blue uid=other"))
			w.change(withUID(newBlock("blue", bound), "x", "other"))
		}},
	} {
		reads := 1
		for n := 1; n <= reads; n++ {
			t.Run(fmt.Sprintf("%s, before read %d", row.name, n), func(t *testing.T) {
				w := newWorld(t, row.before...)
				row.during(w)
				count := w.catchUpBefore(n)
				if _, err := w.sync(KindNetwork, "blue"); err != nil && !errors.Is(err, ErrStale) {
					t.Fatal(err)
				}
				reads = *count
				if len(w.r.writePods.unwatched.sightings) > 0 {
					t.Error("x counted as gone, but a live read found it")
				}
				for _, e := range stored[*v1.AddressBlock](w, "blue-10.1.0.0").Spec.Entries {
					if e.Pod == "x" && (e.State != v1.AddressBound || e.PodUID != podOf(w, "x").UID) {
						t.Errorf("the entry of x became %+v", e)
					}
				}
			})
		}
	}
}
