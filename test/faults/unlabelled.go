package faults

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/sim"
)

// APodWithoutOurLabelHoldsUpNothing removes the label that the controller's watch selects,
// so the watch does not show the replica. The cluster is otherwise quiet: no event of
// another pod shows that the cache is newer than the controller's write to this pod.
func (program Program) APodWithoutOurLabelHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
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
			t.Errorf("the controller does not request the third image within 5 s:\n%s", w.Trace())
		}
	})
}

// RemovedLabelsComeBack removes the labels of a replica, and the controller restores them.
// A replica without a label is replaced as soon as any other.
func (program Program) RemovedLabelsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
		defer w.Close()
		w.Create("apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {name: web, labels: {team: a}}\nspec: {replicas: 1, " +
			"template: {spec: {containers: [{name: app, image: one}]}}}")
		w.Start("run", nil)
		time.Sleep(sim.Settle)
		created := w.Pods()[0]
		labels := func(what string, uid bool, want string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			pods := w.Pods()
			if len(pods) != 1 || (pods[0].UID == created.UID) != uid || pods[0].DeletionTimestamp != nil {
				t.Fatalf("%s: after 5 s the pods are %v\n%s", what, pods, w.Trace())
			}
			l := pods[0].Labels
			got := fmt.Sprint(l[v1.ManagedLabel], l[v1.Pod2Label], l[v1.PodIndexLabel], " ", l["team"], " ", l["tier"])
			if got != want {
				t.Errorf("%s: after 5 s the labels are %s, want %s\n%s", what, got, want, w.Trace())
			}
		}
		for _, key := range []string{v1.ManagedLabel, v1.Pod2Label, v1.PodIndexLabel} {
			w.Patch("pods", "web-0", `{"metadata":{"labels":{"`+key+`":null}}}`)
			labels(key, true, "trueweb0 a ")
		}
		w.Patch("pod2s", "web", `{"metadata":{"labels":{"team":null,"tier":"1"}}}`)
		labels("labels of the Pod2", true, "trueweb0  1")
		w.Patch("pods", "web-0", `{"metadata":{"labels":{"`+v1.ManagedLabel+`":null}}}`)
		w.Delete("pods", "web-0", "")
		labels("deleted without a label", false, "trueweb0  1")
	})
}
