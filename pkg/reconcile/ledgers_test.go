package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/test/chance"
)

// The memory between syncs changes no decision: after each change of pods and
// AddressBlocks, the plan is the same as with everything read again.
func TestLedgersDecideNothing(t *testing.T) {
	settled, plans := 0, 0
	chance.ForSeeds(t, 600, func(t *testing.T, dice *rand.Rand) {
		n := newNetwork("blue 10.0.0.0/15") // it has grown, or is older than the record of CIDRs
		n.Status.CIDRs = chance.Pick(dice, n.Status.CIDRs, []string{"10.1.0.0/16", "10.0.0.0/15"}, nil)
		w := newWorld(t, n, newPod2("web", 2, "blue"))
		w.r.Watches()
		var log []string
		for range 20 {
			for range 1 + dice.IntN(3) {
				log = append(log, w.ledgerHappens(dice))
			}
			state, _, err := w.r.kinds.network.observe(blue)
			if err != nil {
				t.Fatal(err)
			}
			all := w.observeAll(state)
			if got, want := network.Diff(state), network.Diff(all); !reflect.DeepEqual(got, want) {
				t.Errorf("after\n%s\nthe plan from memory is\n%s\nand the plan from everything\n%s", strings.Join(log, "\n"), got, want)
				return
			}
			settled += len(all.Pods) - len(state.Pods)
			plans += len(network.Diff(all).Blocks)
		}
	})
	if settled < 250 || plans < 250 {
		t.Errorf("%d pods left out and %d writes: too few to prove anything", settled, plans)
	}
}

// ledgerHappens changes something in the caches, sends the events of informers, and
// describes the change.
func (w *world) ledgerHappens(dice *rand.Rand) string {
	name := chance.Pick(dice, "a", "b", "c", "web-0", "web-1")
	if chance.One(dice, 2) {
		return w.podHappens(dice, name)
	}
	switch dice.IntN(6) {
	case 0:
		pod := arbitraryPod(dice, name+" unlabelled")
		pod.ResourceVersion = w.next()
		w.r.writePods.unwatched.remember(pod)
		return "a live read finds " + name
	case 1:
		w.clock.SetTime(w.clock.Now().Add(sightingTTL))
		return "time passes"
	}
	third := chance.Pick(dice, "0", "1")
	b := newBlock("blue")
	b.Name, b.Spec.CIDR = "blue-10.1."+third+".0", "10.1."+third+".0/24"
	old, exists, _ := w.r.blocks.indexer.GetByKey(path(ns, b.Name))
	if exists {
		b.Spec.Entries = slices.Clone(old.(*v1.AddressBlock).Spec.Entries)
	}
	switch {
	case exists && chance.One(dice, 8):
		w.must(w.r.blocks.indexer.Delete(old))
		return "gone is " + b.Name
	case len(b.Spec.Entries) > 0 && chance.One(dice, 3):
		i := dice.IntN(len(b.Spec.Entries))
		b.Spec.Entries = slices.Delete(b.Spec.Entries, i, i+1)
	default:
		entry := fmt.Sprintf("10.1.%s.%d %s %s %s", third, 2+dice.IntN(3), name, chance.Pick(dice, "Bound", "Bound", "Bound", "Reserved"), chance.Pick(dice, "", "", "Pod2/web"))
		b.Spec.Entries = append(b.Spec.Entries, newBlock("blue", entry).Spec.Entries...)
	}
	b.ResourceVersion = w.next()
	w.must(w.r.blocks.indexer.Update(b))
	return fmt.Sprintf("%s has %v", b.Name, b.Spec.Entries)
}

func (w *world) podHappens(dice *rand.Rand, name string) string {
	old, exists, _ := w.r.pods.indexer.GetByKey(path(ns, name))
	if exists {
		defer w.r.podChanged(old)
		if chance.One(dice, 3) {
			w.must(w.r.pods.indexer.Delete(old))
			return "gone is pod " + name
		}
	}
	pod := arbitraryPod(dice, name)
	for _, block := range w.r.blocksNaming(ns, name) {
		if i := slices.IndexFunc(block.Spec.Entries, func(e v1.AddressEntry) bool { return e.Pod == name }); !chance.One(dice, 3) {
			pod = newPod(fmt.Sprintf("%s on=blue published=blue:%s", name, block.Spec.Entries[i].Address))
		}
	}
	pod.ResourceVersion = w.next()
	w.must(w.r.pods.indexer.Update(pod))
	w.r.podChanged(pod)
	return fmt.Sprintf("pod %s (%s) of %v phase %q gates %v has %v", name, pod.UID, attachment.Owner(pod), pod.Status.Phase, pod.Spec.SchedulingGates, pod.Annotations)
}

func arbitraryPod(dice *rand.Rand, text string) *corev1.Pod {
	text += chance.Pick(dice, "", "", "", " uid=other") + chance.Pick(dice, "", "", " of=Pod2/web") + chance.Pick(dice, "", "", "", " phase=Failed") + chance.Pick(dice, " on=blue", " on=blue", "")
	if chance.One(dice, 4) {
		return newPod(text + " gated")
	}
	return newPod(text + fmt.Sprintf(" published=%s:10.1.%d.%d", chance.Pick(dice, "blue", "blue", "blue", "green"), dice.IntN(2), 2+dice.IntN(3)))
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// observeAll returns the State of the same view with every pod that concerns the Network,
// and without Known.
func (w *world) observeAll(s network.State) network.State {
	s.Known = nil
	pods := map[string]*corev1.Pod{}
	for _, pod := range w.r.pods.by(byNetwork, path(ns, s.Name)) {
		pods[pod.Name] = pod
	}
	for name := range w.r.writePods.unwatched.names(ns) {
		if pod := w.r.pods.get(ns, name); pod != nil {
			pods[name] = pod
		}
	}
	named := map[string]bool{}
	s.Owners = maps.Clone(s.Owners)
	for _, block := range s.Blocks {
		for _, e := range block.Spec.Entries {
			named[e.Pod] = true
			if pod := w.r.pods.get(ns, e.Pod); pod != nil {
				pods[e.Pod] = pod
			}
			w.r.addOwner(s.Owners, ns, e.Owner)
		}
	}
	s.Pods, _ = w.r.writePods.unwatched.addTo(Key{KindNetwork, ns, s.Name}, slices.Collect(maps.Values(pods)), w.r.pods.at(), func(pod *corev1.Pod) bool {
		_, publishes := attachment.Published(pod)[s.Name]
		return named[pod.Name] || publishes
	})
	for _, pod := range s.Pods {
		w.r.addOwner(s.Owners, ns, attachment.Owner(pod))
	}
	return s
}

// There is no event about a pod that a live read found.
func TestLedgersHeedWhatWasFound(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a on=blue published=blue:10.1.0.2"))
	w.r.Watches()
	if state, _, _ := w.r.kinds.network.observe(blue); len(state.Pods) > 0 {
		t.Fatalf("left out should be %v", namesOf(state.Pods))
	}
	pod := newPod("a on=blue uid=other unlabelled")
	pod.ResourceVersion = w.next()
	w.r.writePods.unwatched.remember(pod)
	state, _, _ := w.r.kinds.network.observe(blue)
	same(t, fmt.Sprint(network.Diff(state).Blocks), "[update block blue-10.1.0.0: rest 10.1.0.2 of a; if terminated: a (uid-of-a)]")
}

// The cache shows a pod without an event so far, and its AddressBlock is gone.
func TestLedgersLookAtWhoLosesAnEntry(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), blockAt("blue", "9"))
	w.r.Watches()
	if _, _, err := w.r.kinds.network.observe(blue); err != nil {
		t.Fatal(err)
	}
	w.must(w.r.pods.indexer.Update(newPod("a on=blue published=blue:10.1.0.2")))
	w.must(w.r.blocks.indexer.Delete(newBlock("blue")))
	state, _, _ := w.r.kinds.network.observe(blue)
	same(t, strings.Join(namesOf(state.Pods), " "), "a")
}

// The cache shows another pod with the name, which waits, but there was no event so far.
// It does not get the address until a sync has checked that the first pod has terminated.
func TestLedgersLookAtWhoWaits(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a on=blue published=blue:10.1.0.2"))
	w.r.Watches()
	if state, _, _ := w.r.kinds.network.observe(blue); len(state.Pods) > 0 {
		t.Fatalf("left out should be %v", namesOf(state.Pods))
	}
	w.must(w.r.pods.indexer.Update(newPod("a on=blue uid=other gated")))
	state, _, _ := w.r.kinds.network.observe(blue)
	same(t, fmt.Sprint(network.Diff(state).Blocks), fmt.Sprint(network.Diff(w.observeAll(state)).Blocks))
}

// A lost event is compensated for.
func TestLedgersLookAtTheWholeFromTimeToTime(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a on=blue published=blue:10.1.0.2"))
	w.r.Watches()
	pods := func() string {
		state, _, err := w.r.kinds.network.observe(blue)
		return fmt.Sprint(len(state.Known[state.Blocks[0]].Owners()), namesOf(state.Pods), network.Diff(state).Blocks, errors.Join(err))
	}
	settled := pods()
	w.must(w.r.pods.indexer.Delete(w.r.pods.get(ns, "a")))
	same(t, pods(), settled)
	w.clock.SetTime(now.Add(wholeEvery - time.Second))
	same(t, pods(), settled)
	w.clock.SetTime(now.Add(wholeEvery))
	if pods() == settled {
		t.Error("the pod is gone, but the plan is empty")
	}
}

// hookedIndexer calls a function before each read of an index.
type hookedIndexer struct {
	cache.Indexer
	before func(index string)
}

func (i hookedIndexer) ByIndex(index, value string) ([]any, error) {
	i.before(index)
	return i.Indexer.ByIndex(index, value)
}

// While one sync reads the cache, the sync of another key may remember a pod that it
// read. An older version of it must not count: the newer version settles its entry and is
// therefore left out.
func TestLedgersTakeNoSightingThatComesWhileTheyRead(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a on=blue published=blue:10.1.0.2"))
	w.r.Watches()
	if _, _, err := w.r.kinds.network.observe(blue); err != nil {
		t.Fatal(err)
	}
	w.r.pods.indexer = hookedIndexer{w.r.pods.indexer, func(index string) {
		if index == byWaiting {
			earlier := newPod("a on=blue uid=earlier gated unlabelled")
			earlier.ResourceVersion = "1"
			w.r.writePods.unwatched.remember(earlier)
		}
	}}
	if state, _, err := w.r.kinds.network.observe(blue); err != nil || len(network.Diff(state).Blocks) > 0 {
		t.Errorf("error %v, block writes: %v", err, network.Diff(state).Blocks)
	}
}

// If a pod makes the key function panic, its event may concern any Network.
func TestLedgersAreDoubtedAfterAPanic(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a on=blue published=blue:10.1.0.2"))
	w.r.Watches()
	if _, _, err := w.r.kinds.network.observe(blue); err != nil {
		t.Fatal(err)
	}
	func() {
		index := w.r.blocks.indexer
		w.r.blocks.indexer = hookedIndexer{index, func(string) { panic("evil") }}
		defer func() { recover(); w.r.blocks.indexer = index }() //nolint:errcheck // the loop reports it
		w.r.podChanged(podOf(w, "a"))
	}()
	if _, _, whole := w.r.kinds.network.ledgers.take(blue); !whole {
		t.Error("the memory is still used")
	}
}
