package faults

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pod2/pod2/test/sim"
)

// tally of what was decided on old views.
type tally struct {
	mu        sync.Mutex // of a sum: scenarios are played at once
	scenarios int        // of a sum
	runs      int
	stale     sim.Staleness
	brought   int // of what was refused, by the disturbance
}

// add adds a run of which so many decisions would have been refused undisturbed: the
// controller's own syncs are in one another's way.
func (c *tally) add(o outcome, undisturbed sim.Staleness) {
	c.runs++
	c.stale.Add(o.stale)
	c.brought += o.stale.Refused - undisturbed.Refused
}

// sum adds up what the scenarios of a test count, and prints it when all are over,
// as docs/reliability.md has it. A test that disturbs nothing fails: of all scenarios, a
// disturbance brings about one refused decision each at least, on the average.
func sum(t *testing.T) *tally {
	all := &tally{}
	t.Cleanup(func() {
		t.Logf("| %s | %s |", t.Name(), all)
		if all.scenarios == len(sim.Scenarios) && all.brought < all.scenarios {
			t.Errorf("%d more decisions were refused than undisturbed, in %d scenarios: nothing was disturbed", all.brought, all.scenarios)
		}
	})
	return all
}

// note prints what one scenario came to, and adds it.
func (c *tally) note(t *testing.T, one *tally) {
	t.Helper()
	if one.runs == 0 {
		t.Error("no run was disturbed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scenarios++
	c.runs += one.runs
	c.brought += one.brought
	c.stale.Add(one.stale)
	t.Logf("| %s | %s |", t.Name(), one)
}

// carriedOut counts what must not have been carried out of decisions on an old view:
// only a write that was held up on its way may come for an owner, or for pods, that went
// or changed meanwhile. Tolerated, on any view, are conditions of pods: the UID, which is
// their precondition, was still right.
func carriedOut(s sim.Staleness) int { return s.Orphans + s.Edited + s.Blocks + s.Applied }

func (c *tally) String() string {
	s := c.stale
	return fmt.Sprintf("%d runs | %d decided on an old view | %d refused | %d by a UID | %d for an owner that went | %d for one that was edited | %d blocks | %d applied",
		c.runs, s.Refused+s.ByUID+s.Orphans+s.Edited+s.Blocks+s.Applied, s.Refused, s.ByUID, s.Orphans, s.Edited, s.Blocks, s.Applied)
}

// sampled says whether the n-th of many is played: each so many, or with more time
// every one.
func sampled(n, each int) bool { return long || n%each == 0 }
