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
		{"one that somebody removed", "replicas=2", []string{"web-0", "web-1 label=samplecrd.k8s.io/managed"}, `
			label web-1 (uid u-1): set samplecrd.k8s.io/managed=true`},
		{"all of ours, and another value", "replicas=1 start=3", []string{"web-3 label=samplecrd.k8s.io/managed:no label=samplecrd.k8s.io/pod2 label=samplecrd.k8s.io/pod-index:7"}, `
			label web-3 (uid u-3): set samplecrd.k8s.io/managed=true; set samplecrd.k8s.io/pod-index=3; set samplecrd.k8s.io/pod2=web`},
		{"of pods that go, too", "replicas=2", []string{"web-0 terminating label=samplecrd.k8s.io/managed", "web-1"}, `
			label web-0 (uid u-0): set samplecrd.k8s.io/managed=true`},
		{"not of others", "replicas=1", []string{"web-0 of=ReplicaSet/x label=samplecrd.k8s.io/managed"}, ""},
		{"not of one that is deleted at the same time", "replicas=1", []string{"web-0", "web-1 label=samplecrd.k8s.io/managed"}, `delete web-1 (uid u-1): scaled down`},
		{"the hash is known to nobody else", "replicas=1", []string{"web-0 label=samplecrd.k8s.io/pod-template-hash"}, `delete web-0 (uid u-0): template changed`},

		{"a Pod2 that has labels now", "replicas=1 labels=team:a", []string{"web-0"}, `
			label web-0 (uid u-0): set team=a; record {"team":"a"}`},
		{"another value", "replicas=1 labels=team:b,tier:1", []string{`web-0 label=team:a label=tier:1 given={"team":"a","tier":"1"}`}, `
			label web-0 (uid u-0): set team=b; record {"team":"b","tier":"1"}`},
		{"one less", "replicas=1 labels=team:a", []string{`web-0 label=team:a label=tier:1 given={"team":"a","tier":"1"}`}, `
			label web-0 (uid u-0): remove tier; record {"team":"a"}`},
		{"none any more", "replicas=1", []string{`web-0 label=team:a given={"team":"a"}`}, `
			label web-0 (uid u-0): remove team; remove the record`},
		{"what somebody changed in the pod stays", "replicas=2 labels=team:a", []string{`web-0 label=team:x given={"team":"a"}`, `web-1 given={"team":"a"}`}, ""},
		{"also when another label of the Pod2 changes", "replicas=1 labels=team:a,tier:2", []string{`web-0 label=team:x label=tier:1 given={"team":"a","tier":"1"}`}, `
			label web-0 (uid u-0): set tier=2; record {"team":"a","tier":"2"}`},
		{"and does not go with the label of the Pod2", "replicas=1", []string{`web-0 label=team:x given={"team":"a"}`}, `
			label web-0 (uid u-0): remove the record`},
		{"the template's come first", "replicas=1 labels=team:a,tier:1;tier:2", []string{`web-0 label=team:a label=tier:2 given={"team":"a"}`}, ""},
		{"one that the template has now stays", "replicas=1 labels=tier:1;tier:1", []string{`web-0 label=tier:1 given={"tier":"1"}`}, `
			label web-0 (uid u-0): remove the record`},
		{"a pod of an earlier release that has them", "replicas=1 labels=team:a", []string{"web-0 label=team:a"}, ""},
		{"a record that we did not write", "replicas=1 labels=team:a", []string{"web-0 label=team:a given=x"}, `
			label web-0 (uid u-0): record {"team":"a"}`},
		{"not of pods that go", "replicas=1 labels=team:a", []string{"web-0 terminating"}, ""},
		{"ours are no labels of the Pod2", "replicas=1 labels=samplecrd.k8s.io/managed:no", []string{"web-0"}, ""},
		{"of replicas that are not updated", "replicas=1 paused current=old labels=team:a", []string{"web-0 old"}, `
			label web-0 (uid u-0): set team=a; record {"team":"a"}`},
	}, func(s State) string { return lines(s, "label", "delete web") })
}

// While labels are to be changed, it is not complete.
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

// One write brings a pod to another revision and gives it its labels.
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

// applyLabels changes pods as the API server would.
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

// brokenLabelPromise says which relabelling is of a pod that is not ours, or has the pod forget what
// it was made from.
func brokenLabelPromise(s State, p Plan) string {
	for _, l := range p.Relabel {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == l.Name && pod.UID == l.UID })
		if i < 0 || !isOurs(s.Pods[i]) {
			return fmt.Sprintf("S6: %s is labelled, and not ours", l.Name)
		}
		_, hash := l.Labels[v1.PodTemplateHashLabel]
		if hash {
			return fmt.Sprintf("%s says no longer what it was made from", l.Name)
		}
	}
	return ""
}

// mislabelledAtRest is the first pod that serves and is not found by its labels, or has not what
// the Pod2 gives it.
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
