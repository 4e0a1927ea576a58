package network

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pod2/pod2/test/chance"
)

const states = 4000

func TestDiffIsAFunction(t *testing.T) {
	chance.ForSeeds(t, states, func(t *testing.T, dice *rand.Rand) {
		text := arbitrary(dice)
		s, fresh := parse(t, text), parse(t, text)
		first, second := Diff(s), Diff(fresh)
		if !reflect.DeepEqual(first, second) {
			t.Errorf("the same state\n%s\ngives first\n%s\nand then\n%s", text, first, second)
		}
		for _, w := range first.Blocks { // the plan belongs to the caller
			w.Block.Finalizers = append(w.Block.Finalizers[:0], "x")
			for i := range w.Block.Spec.Entries {
				w.Block.Spec.Entries[i].Pod = "x"
			}
		}
		if first.Status != nil && len(first.Status.Conditions) > 0 {
			first.Status.Conditions[0].Message = "x"
		}
		if !reflect.DeepEqual(s, fresh) {
			t.Errorf("the state was changed\n%s", text)
		}
	})
}

func TestNothingBadHappens(t *testing.T) { chance.ForSeeds(t, states, nothingBadHappens) }

func FuzzDiff(f *testing.F) { chance.Fuzz(f, nothingBadHappens) }

func nothingBadHappens(t *testing.T, dice *rand.Rand) {
	text := arbitrary(dice)
	s := parse(t, text)
	p := Diff(s)
	doneIfEmpty(t, s, p)
	for _, problem := range slices.Concat(noLiveEntryLeaves(s, p), handedOutRightly(s, p), blocksAreRespected(s, p), offTheCluster(s, p)) {
		t.Error(problem)
	}
	if t.Failed() {
		t.Errorf("state\n%s\nplan\n%s", text, p)
	}
}

// If the plan is empty, the passing of time changes nothing before RequeueAfter.
func TestRequeueAfterIsExact(t *testing.T) {
	waiting := 0
	chance.ForSeeds(t, states/2, func(t *testing.T, dice *rand.Rand) {
		w := worldOf(parse(t, arbitrary(dice)))
		for range 8 {
			s := w.state("blue", w.now)
			_ = w.apply(s, Diff(s), 1000)
		}
		s := w.state("blue", w.now)
		p := Diff(s)
		if doneIfEmpty(t, s, p); t.Failed() {
			t.Log(w)
		}
		switch {
		case !p.Empty():
			t.Errorf("L1: it has not settled after 8 rounds:\n%s\n%s", p, w)
		case p.RequeueAfter == 0:
			if late := Diff(later(s, 48*time.Hour)); !late.Empty() {
				t.Errorf("RequeueAfter is 0, but time changes the plan:\n%s\n%s", late, w)
			}
		default:
			waiting++
			if early := Diff(later(s, p.RequeueAfter-time.Second)); !early.Empty() {
				t.Errorf("RequeueAfter of %s is too late:\n%s\n%s", p.RequeueAfter, early, w)
			}
		}
	})
	if waiting < 25 {
		t.Errorf("only %d states waited: too few to prove anything", waiting)
	}
}

func worldOf(s State) *server {
	w := &server{cluster: newCluster(), now: s.Now, last: 100}
	w.owners = s.Owners
	for _, n := range append([]Neighbour{{s.Name, s.Network, s.Blocks}}, s.Neighbours...) {
		if n.Network != nil {
			w.networks[n.Name] = n.Network
		}
		for _, b := range n.Blocks {
			w.blocks[b.Name] = b
		}
	}
	for _, pod := range s.Pods {
		w.pods[pod.Name] = pod
	}
	return w
}
