package pod2

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// A scale-up that is reverted creates no more pods than one plan has.
func TestAPlanCreatesFiveHundredPods(t *testing.T) {
	creations := Diff(state(t, "replicas=2000")).Create
	if len(creations) != 500 || creations[499].Name != "web-499" {
		t.Errorf("%d pods are created", len(creations))
	}
}

// Labels that are reverted reach no more pods than one plan has.
func TestAPlanLabelsFiveHundredPods(t *testing.T) {
	var pods []string
	for i := range 700 {
		pods = append(pods, fmt.Sprintf("web-%d", i))
	}
	if labelled := Diff(state(t, "replicas=700 labels=team:db", pods...)).Relabel; len(labelled) != 500 {
		t.Errorf("%d pods are labelled", len(labelled))
	}
}

// 500 pods would not fit into memory.
func TestAPlanHoldsNoPods(t *testing.T) {
	s := state(t, "replicas=500")
	s.Pod2.Spec.Template.Annotations = map[string]string{"large": strings.Repeat("x", 100<<10)}
	s.Revisions = nil
	bytes := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Diff(s)
		}
	}).AllocedBytesPerOp()
	if bytes > 20<<20 {
		t.Errorf("a plan of 500 pods of 100 KiB allocates %d MiB", bytes>>20)
	}
}

// tooLarge returns a state whose template exceeds the bound, while no revision does.
func tooLarge(t *testing.T, spec string, pods ...string) State {
	s := state(t, spec, pods...)
	s.Pod2.Spec.Template.Annotations = map[string]string{"large": strings.Repeat("x", maxContent)}
	return s
}

func TestATemplateThatIsTooLargeMakesNoPod(t *testing.T) {
	s := tooLarge(t, "replicas=2")
	s.Revisions = nil
	if got := actions(s); got != "" {
		t.Errorf("got\n%s", got)
	}
	want := "spec.template is 262,272 bytes as JSON, and at most 262,144 are allowed: move large data to a ConfigMap or a Secret"
	if ready := meta.FindStatusCondition(Diff(s).Status.Conditions, v1.ConditionReady); ready.Reason != ReasonTemplateTooLarge || ready.Message != want {
		t.Errorf("%s: %s", ready.Reason, ready.Message)
	}
}

func TestATemplateThatIsTooLargeChangesNoReplica(t *testing.T) {
	s := tooLarge(t, "replicas=2", "web-0")
	s.Pods[0].Labels[v1.PodTemplateHashLabel] = s.Revisions[1].Labels[v1.PodTemplateHashLabel]
	if got, want := actions(s), "create web-1: missing"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	pod := Diff(s).Create[0].Pod()
	if pod.Annotations["large"] != "" || pod.Labels[v1.PodTemplateHashLabel] != s.Revisions[1].Labels[v1.PodTemplateHashLabel] {
		t.Errorf("web-1 is of revision %s", pod.Labels[v1.PodTemplateHashLabel])
	}
}

// The revisions are gone, so nothing says how a replica must look.
func TestATemplateThatIsTooLargeDeletesAndAdoptsNothing(t *testing.T) {
	for _, pods := range []string{"web-0 old", "web-0 bare made", "web-0 orphan"} {
		for _, spec := range []string{"replicas=1", "replicas=1 recreate"} {
			s := tooLarge(t, spec, pods)
			s.Revisions = nil
			if got := actions(s); got != "" {
				t.Errorf("%s, %s: got\n%s", spec, pods, got)
			}
		}
	}
}

// Someone deleted the revision of the existing replicas.
func TestTheRevisionOfALargeTemplateIsMadeAgain(t *testing.T) {
	s := tooLarge(t, "replicas=2", "web-0")
	s.Revisions = nil
	s.Pods[0].Labels[v1.PodTemplateHashLabel] = RevisionHash(s.Pod2)
	if got := actions(s); !strings.HasPrefix(got, "create revision 1 web-") || !strings.HasSuffix(got, "create web-1: missing") {
		t.Errorf("got\n%s", got)
	}
}

// An undo returns to the newest revision. The spec does not have that content.
func TestATemplateThatIsTooLargeIsOfNoRevision(t *testing.T) {
	s := tooLarge(t, "replicas=1")
	for _, r := range History(s.Pod2, s.Revisions) {
		if r.Wanted {
			t.Errorf("the spec counts as revision %s", r.Object.Name)
		}
	}
}

// A controller without the bound accepted this template.
func TestALargeTemplateOfARevisionIsServed(t *testing.T) {
	s := tooLarge(t, "replicas=2", "web-0")
	known := readRevisions(State{Pod2: withSmallTemplate(s.Pod2)}).create
	known.Data.Raw, known.UID = ContentOf(s.Pod2).canonical(), "u-large"
	s.Revisions = []*appsv1.ControllerRevision{known}
	s.Pods[0].Labels[v1.PodTemplateHashLabel] = known.Labels[v1.PodTemplateHashLabel]
	if got, want := actions(s), "create web-1: missing"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func withSmallTemplate(p *v1.Pod2) *v1.Pod2 {
	p = p.DeepCopy()
	p.Spec.Template.Annotations = nil
	return p
}
