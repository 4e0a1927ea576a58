package faults

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pod2/pod2/test/sim"
)

// NoConflictWithItself creates and deletes 200 replicas on two Networks. Each status has
// one writer. If several keys write to one pod, their only precondition is its UID. So no
// request of the program is refused because of the program's own writes.
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
			act() // a user's change at this moment must not conflict either
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
