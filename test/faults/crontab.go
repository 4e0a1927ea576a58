package faults

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pod2/pod2/test/sim"
)

// statusWritesOfRuns counts the status writes of a CronTab that runs each minute, during
// this many runs.
func (program Program) statusWritesOfRuns(runs int) (writes int, trace string) {
	w := sim.NewWorld(program.alone, nil, nil)
	defer w.Close()
	w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/24, reuseDelaySeconds: 1}",
		"apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: report}\n"+
			"spec: {cronSpec: \"* * * * *\", image: slow, networks: [{name: blue}]}")
	w.Start("run", nil)
	time.Sleep(90 * time.Second) // halfway between two runs
	w.Note("counted from here")
	time.Sleep(time.Duration(runs) * time.Minute)
	_, trace, _ = strings.Cut(w.Trace(), "counted from here")
	return strings.Count(trace, "crontabs/report/status -> ok"), trace
}

// ARunOfACronTabCostsTwoWritesOfItsStatus counts the writes: one when the run has begun,
// and one when it has ended.
func (program Program) ARunOfACronTabCostsTwoWritesOfItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if writes, trace := program.statusWritesOfRuns(10); writes > 20 {
			t.Errorf("10 runs cost %d writes of the status:\n%s", writes, trace)
		}
	})
}
