package faults

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pod2/pod2/test/sim"
)

// NoConflictWithItself has 200 replicas on two Networks come up and go: each status has one
// writer, and what several keys write of a pod has the UID as its precondition alone, so
// that nothing the program asks for is refused for what it wrote itself.
func (program Program) NoConflictWithItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
		defer w.Close()
		w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/16}",
			"apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: red}\nspec: {cidr: 10.1.0.0/16}")
		w.Start("it", nil)
		time.Sleep(sim.Settle)
		w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {name: web}\n" +
			"spec: {replicas: 200, networks: [{name: blue}, {name: red}], template: {spec: {containers: [{name: app, image: one}]}}}")
		time.Sleep(sim.Settle)
		w.Expect("pod2s/web", "all 200 replicas are available")
		w.Patch("pod2s", "web", `{"spec":{"replicas":0}}`)
		time.Sleep(sim.Settle)
		for _, act := range []func(){func() { w.Delete("pod2s", "web", "") }, func() { w.Delete("networks", "blue", "") }, func() { w.Delete("networks", "red", "") }} {
			act() // and what a user changes at that moment conflicts with nothing
			time.Sleep(sim.Settle)
		}
		conflicts := slices.DeleteFunc(strings.Split(w.Trace(), "\n"), func(line string) bool {
			return !strings.Contains(line, "it: ") || !strings.HasSuffix(line, "-> Conflict")
		})
		if len(conflicts) > 0 {
			t.Errorf("%d conflicts:\n%s", len(conflicts), strings.Join(conflicts, "\n"))
		}
	})
}
