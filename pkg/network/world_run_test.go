package network

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// refresh updates a cache, each kind independently.
func (w *world) refresh(c *cluster, lags [4]int) {
	if chance.One(w.dice, lags[0]) {
		c.networks = maps.Clone(w.networks)
	}
	if chance.One(w.dice, lags[1]) {
		c.blocks = maps.Clone(w.blocks)
	}
	if chance.One(w.dice, lags[2]) {
		c.pods = maps.Clone(w.pods)
	}
	if chance.One(w.dice, lags[3]) {
		c.owners = maps.Clone(w.owners)
	}
}

var noLag = [4]int{1, 1, 1, 1}

func (w *world) everybodySees() {
	for i := range w.caches {
		w.refresh(&w.caches[i], noLag)
	}
}

// sync is one sync of a controller. The controller may die during it.
func (w *world) sync(i int) {
	c, calls := w.caches[i], 1000
	if chance.One(w.dice, 10) {
		calls = w.dice.IntN(3)
	}
	switch w.dice.IntN(3) {
	case 0:
		w.syncNetwork(i, c.state(chance.Pick(w.dice, networkNames...), w.now), calls)
	default:
		for _, name := range slices.Sorted(maps.Keys(c.pods)) {
			if chance.One(w.dice, 2) {
				w.syncPod(i, name)
			}
		}
	}
}

func (w *world) syncNetwork(i int, s State, calls int) (wrote bool) {
	plan := Diff(s)
	if plan.Empty() {
		if why := spec.NetworkDone(objects(s), s.Name); why != "" {
			w.must(fmt.Errorf("the plan is empty, but the Network is not done: %s", why))
		}
		return false
	}
	err := w.apply(s, plan, calls)
	w.did("controller %d, Network %s: %v\n%s", i, s.Name, err, plan)
	w.must(err)
	return true
}

func (w *world) syncPod(i int, name string) (wrote bool) {
	s := w.caches[i].podState(name, w.now)
	plan := Publish(s)
	if plan.Empty() {
		return false
	}
	err := w.applyPod(s.Pod, plan)
	w.did("controller %d, pod %s/%s: %v\n%s", i, name, s.Pod.UID, err, plan)
	w.must(err)
	return true
}

// settle ends the faults and lets time pass until nobody writes. It returns the number of
// rounds.
func (w *world) settle() {
	for range 60 {
		wrote := false
		for _, name := range networkNames {
			w.everybodySees()
			wrote = w.syncNetwork(0, w.state(name, w.now), 1000) || wrote
		}
		for _, pod := range sorted(w.pods) {
			w.everybodySees()
			wrote = w.syncPod(0, pod.Name) || wrote
		}
		before := w.last
		w.collectGarbage()
		if !wrote && before == w.last {
			return
		}
		w.must(w.shared())
	}
	w.must(errors.New("it does not settle"))
}

func (w *world) shared() error {
	if why := spec.SharedAddress(sorted(w.pods)); why != "" {
		return errors.New(why)
	}
	if why := spec.OnEdge(sorted(w.blocks), sorted(w.pods)); why != "" && w.calm { // otherwise the Network may be another one with the same name
		return errors.New(why)
	}
	return nil
}

func TestWorld(t *testing.T) {
	published := 0
	chance.ForSeeds(t, 300, func(t *testing.T, dice *rand.Rand) {
		w := newWorld(t, dice)
		quiet := chance.Pick(dice, 2, 4, 8)
		for range 400 {
			if chance.One(dice, quiet) {
				w.user()
			}
			if chance.One(dice, quiet) {
				w.others()
			}
			i := dice.IntN(2)
			if chance.One(dice, 50) { // it restarts
				w.refresh(&w.caches[i], noLag)
			}
			w.refresh(&w.caches[i], w.lags[i])
			w.sync(i)
			w.must(w.shared())
		}
		published += w.published
		w.settle()
		w.nothingWaitsThatCould()
		w.nothingLeaks()
	})
	if published < 500 {
		t.Errorf("only %d pods were served: too few to prove anything", published)
	}
}

// passTime lets time pass for as long as the plan of a Network says that it will change
// something. One change can follow another: an address that has rested is bound to a pod,
// and the address that was reserved for this pod begins to rest.
func (w *world) passTime() {
	for range 60 {
		w.settle()
		next := never
		for _, name := range networkNames {
			if after := Diff(w.state(name, w.now)).RequeueAfter; after > 0 {
				next = min(next, after)
			}
		}
		if next == never {
			return
		}
		w.now = w.now.Add(next)
	}
	w.must(errors.New("L2: the passing of time does not stop to change something"))
}

// L1, L2 and L3: each waiting object has a reason, and this stays so as time passes.
func (w *world) nothingWaitsThatCould() {
	w.passTime()
	for _, pod := range sorted(w.pods) {
		if _, waits := Wants(pod); waits && boundCondition(pod) == nil {
			w.must(fmt.Errorf("L3: pod %s waits without a reason in its conditions", pod.Name))
		}
	}
	w.now = w.now.Add(24 * time.Hour)
	before := w.last
	if w.settle(); w.last != before {
		w.must(errors.New("L2: no plan said so, but the passing of time caused a write"))
	}
}

// S9 and S8: without pods and owners, no AddressBlock is left, and no terminating Network.
func (w *world) nothingLeaks() {
	w.pods, w.owners = map[string]*corev1.Pod{}, map[v1.AddressOwner]Replicas{}
	w.passTime()
	for _, n := range sorted(w.networks) {
		if n.DeletionTimestamp != nil {
			w.must(fmt.Errorf("Network %s is never deleted", n.Name))
		}
	}
	if len(w.blocks) > 0 {
		w.must(errors.New("S9: AddressBlocks are left"))
	}
}
