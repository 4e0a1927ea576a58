package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pod2/pod2/pkg/sim"
)

// Our watch of pods does not show a replica without our label. The cluster is otherwise quiet: no
// event of another pod tells that the cache is newer than what we wrote to this one.
func TestAPodWithoutOurLabelHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program, nil, nil)
		defer w.Close()
		w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/24}",
			"apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {name: web}\nspec: {replicas: 1, networks: [{name: blue}], "+
				"template: {spec: {containers: [{name: app, image: one}]}}}")
		w.Start("run", nil)
		time.Sleep(sim.Settle)
		w.Patch("pods", "web-0", `{"metadata":{"labels":{"samplecrd.k8s.io/managed":null}}}`)
		time.Sleep(10 * time.Second)
		w.Patch("pod2s", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"two"}]}}}}`) // in place
		time.Sleep(5 * time.Second)
		w.Note("again")
		w.Patch("pod2s", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"three"}]}}}}`)
		time.Sleep(5 * time.Second)
		_, after, _ := strings.Cut(w.Trace(), "again")
		if !strings.Contains(after, "run: PATCH pods/web-0 -> ok") {
			t.Errorf("the second image is not asked for within 5 s:\n%s", w.Trace())
		}
	})
}
