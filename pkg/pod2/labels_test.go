package pod2

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
)

func TestRelabel(t *testing.T) {
	runDiff(t, []diffTest{
		{"one that someone removed", "replicas=2", []string{"web-0", "web-1 label=samplecrd.k8s.io/managed"}, `
			label web-1 (uid u-1): set samplecrd.k8s.io/managed=true`},
		{"all of the controller's, and another value", "replicas=1 start=3", []string{"web-3 label=samplecrd.k8s.io/managed:no label=samplecrd.k8s.io/pod2 label=samplecrd.k8s.io/pod-index:7"}, `
			label web-3 (uid u-3): set samplecrd.k8s.io/managed=true; set samplecrd.k8s.io/pod-index=3; set samplecrd.k8s.io/pod2=web`},
		{"also of terminating pods", "replicas=2", []string{"web-0 terminating label=samplecrd.k8s.io/managed", "web-1"}, `
			label web-0 (uid u-0): set samplecrd.k8s.io/managed=true`},
		{"not of other owners", "replicas=1", []string{"web-0 of=ReplicaSet/x label=samplecrd.k8s.io/managed"}, ""},
		{"not of one that is deleted at the same time", "replicas=1", []string{"web-0", "web-1 label=samplecrd.k8s.io/managed"}, `delete web-1 (uid u-1): scaled down`},
		{"nothing else knows the hash", "replicas=1", []string{"web-0 label=samplecrd.k8s.io/pod-template-hash"}, `delete web-0 (uid u-0): template changed`},

		{"a Pod2 that has labels now", "replicas=1 labels=team:a", []string{"web-0"}, `
			label web-0 (uid u-0): set team=a; record {"team":"a"}`},
		{"another value", "replicas=1 labels=team:b,tier:1", []string{`web-0 label=team:a label=tier:1 given={"team":"a","tier":"1"}`}, `
			label web-0 (uid u-0): set team=b; record {"team":"b","tier":"1"}`},
		{"one label removed", "replicas=1 labels=team:a", []string{`web-0 label=team:a label=tier:1 given={"team":"a","tier":"1"}`}, `
			label web-0 (uid u-0): remove tier; record {"team":"a"}`},
		{"all labels removed", "replicas=1", []string{`web-0 label=team:a given={"team":"a"}`}, `
			label web-0 (uid u-0): remove team; remove the record`},
		{"a user's change in the pod stays", "replicas=2 labels=team:a", []string{`web-0 label=team:x given={"team":"a"}`, `web-1 given={"team":"a"}`}, ""},
		{"also when another label of the Pod2 changes", "replicas=1 labels=team:a,tier:2", []string{`web-0 label=team:x label=tier:1 given={"team":"a","tier":"1"}`}, `
			label web-0 (uid u-0): set tier=2; record {"team":"a","tier":"2"}`},
		{"and stays without the label of the Pod2", "replicas=1", []string{`web-0 label=team:x given={"team":"a"}`}, `
			label web-0 (uid u-0): remove the record`},
		{"the template's take precedence", "replicas=1 labels=team:a,tier:1;tier:2", []string{`web-0 label=team:a label=tier:2 given={"team":"a"}`}, ""},
		{"one that the template has now stays", "replicas=1 labels=tier:1;tier:1", []string{`web-0 label=tier:1 given={"tier":"1"}`}, `
			label web-0 (uid u-0): remove the record`},
		{"a pod of an earlier release that has them", "replicas=1 labels=team:a", []string{"web-0 label=team:a"}, ""},
		{"a record of another writer", "replicas=1 labels=team:a", []string{"web-0 label=team:a given=x"}, `
			label web-0 (uid u-0): record {"team":"a"}`},
		{"not of terminating pods", "replicas=1 labels=team:a", []string{"web-0 terminating"}, ""},
		{"the controller's labels are not the Pod2's", "replicas=1 labels=samplecrd.k8s.io/managed:no", []string{"web-0"}, ""},
		{"of replicas that are not updated", "replicas=1 paused current=old labels=team:a", []string{"web-0 old"}, `
			label web-0 (uid u-0): set team=a; record {"team":"a"}`},
	}, func(s State) string { return lines(s, "label", "delete web") })
}

// A Pod2 is not complete while labels must change.
func TestProgressOfLabels(t *testing.T) {
	s := state(t, "replicas=2 labels=team:a", "web-0 label=team:a", "web-1")
	const want = "Progressing: labels of web-1 are not up to date (team)"
	if c := look(s).progressing(look(s).ready(nil)); c.Reason+": "+c.Message != want {
		t.Errorf("got %s: %s, want %s", c.Reason, c.Message, want)
	}
	events := Events(s, Diff(s))
	if len(events) != 1 || events[0] != plan.Normal(EventLabelling, "changed labels of web-1: team") {
		t.Errorf("events %v", events)
	}
}

// One write updates a pod to another revision and sets its labels.
func TestInPlaceUpdateLabels(t *testing.T) {
	s := state(t, "replicas=1 inplace labels=team:a", `web-0 old label=samplecrd.k8s.io/managed label=tier:1 given={"tier":"1"}`)
	plan := Diff(s)
	if len(plan.InPlace) != 1 || len(plan.Relabel) > 0 {
		t.Fatalf("the plan is\n%s", plan)
	}
	update := plan.InPlace[0]
	delete(update.Labels, v1.PodTemplateHashLabel)
	l := Relabelling{Name: update.Name, UID: update.UID, Labels: update.Labels, Given: update.Given}
	const want = `label web-0 (uid u-0): set samplecrd.k8s.io/managed=true; set team=a; remove tier; record {"team":"a"}`
	if l.String() != want {
		t.Errorf("got\n%s\nwant\n%s", l, want)
	}
}

// applyLabels changes pods like the API server.
func applyLabels(s *State, p Plan) error {
	for _, l := range p.Relabel {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool {
			return pod.Name == l.Name && pod.UID == l.UID && pod.ResourceVersion == l.ResourceVersion
		})
		if i < 0 {
			return fmt.Errorf("label %s (uid %s) at %s: no such pod", l.Name, l.UID, l.ResourceVersion)
		}
		s.Pods = slices.Clone(s.Pods)
		s.Pods[i] = s.Pods[i].DeepCopy()
		setLabels(s.Pods[i], l.Labels, l.Given)
	}
	return nil
}

func setLabels(pod *corev1.Pod, labels map[string]*string, given *string) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	for key, value := range labels {
		if delete(pod.Labels, key); value != nil {
			pod.Labels[key] = *value
		}
	}
	if given == nil {
		return
	}
	pod.Annotations = maps.Clone(pod.Annotations)
	if delete(pod.Annotations, v1.Pod2LabelsAnnotation); *given != "" {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[v1.Pod2LabelsAnnotation] = *given
	}
}

// brokenLabelPromise reports a label change of a pod that the Pod2 does not own, or one
// that removes the hash of its revision.
func brokenLabelPromise(s State, p Plan) string {
	for _, l := range p.Relabel {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == l.Name && pod.UID == l.UID })
		if i < 0 || !isOurs(s.Pods[i]) {
			return fmt.Sprintf("S6: %s is labelled, but the Pod2 does not own it", l.Name)
		}
		_, hash := l.Labels[v1.PodTemplateHashLabel]
		if hash {
			return fmt.Sprintf("%s no longer names its revision", l.Name)
		}
	}
	return ""
}

// mislabelledAtRest returns the first available pod whose labels do not identify it, or
// that lacks labels of the Pod2.
func mislabelledAtRest(s State) string {
	for _, pod := range s.Pods {
		if !isOurs(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		text := strings.Join([]string{pod.Labels[v1.ManagedLabel], pod.Labels[v1.Pod2Label], pod.Labels[v1.PodIndexLabel]}, " ")
		_, named := ordinals.Parse("web", pod.Name)
		if want := fmt.Sprintf("true web %d", ordinalOf(pod.Name)); named && text != want {
			return fmt.Sprintf("%s has the labels %s, want %s", pod.Name, text, want)
		}
		known := slices.ContainsFunc(look(s).revisions.ours, func(r *revision) bool { return r.hash == pod.Labels[v1.PodTemplateHashLabel] })
		if is, want := pod.Labels["team"], s.Pod2.Labels["team"]; known && is != want {
			return fmt.Sprintf("%s has team=%s, want %s", pod.Name, is, want)
		}
	}
	return ""
}

// The label counts only at creation, so a running pod must be replaced to lose its Sidecars or
// to get some.
func TestSidecarsLabelReachesReplicas(t *testing.T) {
	for _, was := range []map[string]string{nil, {v1.SidecarsLabel: "disabled"}} {
		s := state(t, "replicas=1 inplace", "web-0 old image=nginx:1")
		content := ContentOf(s.Pod2)
		content.Template = *content.Template.DeepCopy()
		content.Template.Labels = was
		s.Revisions[0].Data.Raw = content.canonical()
		if was == nil {
			s.Pod2.Spec.Template.Labels = map[string]string{v1.SidecarsLabel: "disabled"}
		}
		want := "delete web-0 (uid u-0): template changed: label samplecrd.k8s.io/sidecars (it counts only when a pod is created) cannot be changed in a running pod"
		if got := lines(s, "update", "delete"); got != want {
			t.Errorf("from labels %v: got %s", was, got)
		}
	}
}
