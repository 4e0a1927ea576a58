package faults

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pod2/pod2/test/sim"
)

// tally counts the decisions on old views.
type tally struct {
	mu        sync.Mutex // of a sum: scenarios run in parallel
	scenarios int        // of a sum
	runs      int
	stale     sim.Staleness
	brought   int // refused decisions that the disturbance caused
}

// add adds a run. undisturbed are the decisions that are refused without a disturbance,
// too: the controller's own syncs interfere with each other.
func (c *tally) add(o outcome, undisturbed sim.Staleness) {
	c.runs++
	c.stale.Add(o.stale)
	c.brought += o.stale.Refused - undisturbed.Refused
}

// sum adds up the counts of a test's scenarios. It prints them at the end of the test, in
// the form of docs/contributing/reliability.md. A test that disturbs nothing fails: over all scenarios,
// a disturbance must cause at least one refused decision per scenario on average.
func sum(t *testing.T) *tally {
	all := &tally{}
	t.Cleanup(func() {
		t.Logf("| %s | %s |", t.Name(), all)
		if all.scenarios == len(sim.Scenarios) && all.brought < all.scenarios {
			t.Errorf("disturbances caused only %d refused decisions in %d scenarios: nothing was disturbed", all.brought, all.scenarios)
		}
	})
	return all
}

// note prints the counts of one scenario, and adds them.
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

// carriedOut counts the decisions on an old view that must not have been carried out. Only
// a write that was held may arrive for an owner, or for pods, that were deleted or changed
// meanwhile. Writes of pods' conditions are always tolerated: their precondition is the
// UID, which was still right.
func carriedOut(s sim.Staleness) int { return s.Orphans + s.Edited + s.Blocks + s.Applied }

func (c *tally) String() string {
	s := c.stale
	return fmt.Sprintf("%d runs | %d decided on an old view | %d refused | %d by a UID | %d for an owner that is gone | %d for an edited owner | %d AddressBlocks | %d applied",
		c.runs, s.Refused+s.ByUID+s.Orphans+s.Edited+s.Blocks+s.Applied, s.Refused, s.ByUID, s.Orphans, s.Edited, s.Blocks, s.Applied)
}

// sampled says whether the n-th test of many runs: one of each so many, or every one if
// there is time.
func sampled(n, each int) bool { return long || n%each == 0 }
