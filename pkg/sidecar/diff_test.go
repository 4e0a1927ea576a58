package sidecar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func mesh(generation int64) *v1.Sidecar {
	return &v1.Sidecar{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mesh", Generation: generation},
		Spec:       v1.SidecarSpec{Selector: map[string]string{"app": "web"}, Env: []corev1.EnvVar{{Name: "A", Value: fmt.Sprint(generation)}}},
	}
}

func podWith(sidecars string, ready bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{v1.SidecarsAnnotation: sidecars}}}
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got = strings.TrimSpace(got); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestGenerations(t *testing.T) {
	for text, want := range map[string]string{
		"logs=1/0/0/1,mesh=4/1/0/1": "map[logs:1 mesh:4]", "": "map[]", "mesh=off": "map[]", "mesh": "map[]", "a=1": "map[a:1]",
	} {
		same(t, fmt.Sprint(Generations(podWith(text, false))), want)
	}
}

// New pods keep the last accepted generation while the present one is refused.
func TestTheLastAcceptedGenerationStays(t *testing.T) {
	s := State{Now: now, Sidecar: mesh(1), Pods: []*corev1.Pod{podWith("mesh=1/0/0/0", true), podWith("logs=1/0/0/1,mesh=2/0/0/0", false)}}
	refused := plan.Failure{Reason: ReasonRefused, Message: "no such image"}
	status, events := WithFailure(s, refused)
	same(t, Plan{Status: status, Events: events}.String(), "status matched 2 upToDate 0 ready 1 injected none Ready=False/Refused(no such image)\nevent Warning Refused: no such image")
	p := Diff(s)
	same(t, p.String(), "dry run of pod mesh-sidecar-probe\nstatus matched 2 upToDate 1 ready 1 injected 1 Ready=True/Accepted(the API server accepted a pod with generation 1)")

	s.Sidecar.Status = *p.Status
	same(t, Diff(s).String(), "")
	s.Sidecar.Generation, s.Sidecar.Spec = 2, mesh(2).Spec
	status, _ = WithFailure(s, refused)
	same(t, Plan{Status: status}.String(), "status matched 2 upToDate 1 ready 1 injected 1 Ready=False/Refused(no such image)")
	if got := status.Injected.Spec.Env[0].Value; got != "1" {
		t.Errorf("pods get the variable of generation %s", got)
	}
	s.Sidecar.Status = *status
	if status, events = WithFailure(s, refused); status != nil || events != nil {
		t.Errorf("the same failure is written again: %v %v", status, events)
	}
	same(t, Diff(s).String(), "dry run of pod mesh-sidecar-probe\nstatus matched 2 upToDate 1 ready 1 injected 2 Ready=True/Accepted(the API server accepted a pod with generation 2)")
}

func TestAnswerOfTheDryRun(t *testing.T) {
	s := State{Sidecar: mesh(4)}
	same(t, Accepts(s, podWith("mesh=4/0/0/0", false)), "")
	for _, other := range []string{"", "mesh=3/0/0/0", "logs=4/0/0/0"} {
		if why := Accepts(s, podWith(other, false)); !strings.Contains(why, "kubectl label namespace default samplecrd.k8s.io/sidecars=enabled") {
			t.Errorf("%q: %s", other, why)
		}
	}
	s.Sidecar.Spec.Selector = map[string]string{v1.SidecarsLabel: "disabled"}
	same(t, Accepts(s, podWith("", false)), "spec.selector has the label samplecrd.k8s.io/sidecars: disabled, and no pod with it gets a Sidecar: remove it from the selector")
}

// The probe has the containers that the Sidecar targets.
func TestProbe(t *testing.T) {
	s := State{Sidecar: mesh(1)}
	s.Sidecar.Spec.TargetContainers = []string{"a", "b"}
	probe := Diff(s).Probe
	if probe.Spec.SecurityContext != nil || probe.Spec.Containers[0].SecurityContext.SeccompProfile == nil {
		t.Error("containers of Sidecars inherit settings of the probe")
	}
	same(t, strings.ReplaceAll(fmt.Sprintf("%v %v %s %s", probe.Labels, probe.Annotations, probe.Spec.Containers[0].Name, probe.Spec.Containers[1].Name), "map", ""), "[app:web] [samplecrd.k8s.io/sidecar-probe:mesh] a b")
}

// Of two Sidecars that some pods cannot both have, the one that was accepted first stays, and then that with the lower name.
func TestConflict(t *testing.T) {
	other := func(name string, change func(*v1.SidecarSpec)) *v1.Sidecar {
		o := mesh(1)
		o.Name, o.Spec.Env = name, nil
		change(&o.Spec)
		return o
	}
	env := func(s *v1.SidecarSpec) { s.Env = []corev1.EnvVar{{Name: "A"}} }
	accepted := func(o *v1.Sidecar) *v1.Sidecar {
		o.Status.Injected = &v1.SidecarGeneration{Generation: 1, Spec: o.Spec}
		return o
	}
	ours := mesh(1)
	ours.Spec.Containers, ours.Spec.Volumes = []corev1.Container{{Name: "c"}}, []corev1.Volume{{Name: "v"}}
	ours.Spec.VolumeMounts, ours.Spec.TargetContainers = []corev1.VolumeMount{{Name: "v", MountPath: "/m"}}, []string{"app"}
	for name, row := range map[string]struct {
		other *v1.Sidecar
		want  string
	}{
		"nothing alike":                {other("a", func(*v1.SidecarSpec) {}), ""},
		"a variable":                   {other("a", env), "the variable A"},
		"new, with a higher name":      {other("z", env), ""},
		"accepted, with a higher name": {accepted(other("z", env)), "the variable A"},
		"other pods":                   {other("a", func(s *v1.SidecarSpec) { env(s); s.Selector = map[string]string{"app": "db"} }), ""},
		"perhaps the same pods":        {other("a", func(s *v1.SidecarSpec) { env(s); s.Selector = map[string]string{"tier": "front"} }), "the variable A"},
		"other containers":             {other("a", func(s *v1.SidecarSpec) { env(s); s.TargetContainers = []string{"db"} }), ""},
		"a container":                  {other("a", func(s *v1.SidecarSpec) { s.InitContainers = []corev1.Container{{Name: "c"}} }), "the container c"},
		"a volume":                     {other("a", func(s *v1.SidecarSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} }), "the volume v"},
		"a mount":                      {other("a", func(s *v1.SidecarSpec) { s.VolumeMounts = []corev1.VolumeMount{{MountPath: "/m"}} }), "the mount at /m"},
	} {
		p := Diff(State{Now: now, Sidecar: ours, Others: []*v1.Sidecar{row.other}})
		got := plan.ConditionsText(p.Status.Conditions)
		if (p.Probe == nil) != (row.want != "") || row.want != "" && !strings.Contains(got, "Ready=False/Conflict(Sidecar "+row.other.Name+" has "+row.want+" too") {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// The Sidecars above the bound are those that were never accepted, and have the highest names.
func TestTooMany(t *testing.T) {
	accepted := &v1.SidecarGeneration{Generation: 1, Spec: v1.SidecarSpec{Selector: map[string]string{"app": "db"}}}
	others := func(count int, name string, injected *v1.SidecarGeneration) (all []*v1.Sidecar) {
		for i := range count {
			all = append(all, &v1.Sidecar{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf(name, i)}, Spec: v1.SidecarSpec{Selector: map[string]string{"app": "db"}}, Status: v1.SidecarStatus{Injected: injected}})
		}
		return all
	}
	ended := others(20, "a%d", nil)
	ended[0].DeletionTimestamp = &metav1.Time{Time: now}
	for name, row := range map[string]struct {
		others   []*v1.Sidecar
		injected *v1.SidecarGeneration
		tooMany  bool
	}{
		"19 others":                              {others(19, "a%d", accepted), nil, false},
		"20 with lower names":                    {others(20, "a%d", nil), nil, true},
		"20 with higher names":                   {others(20, "z%d", nil), nil, false},
		"20 accepted ones with higher names":     {others(20, "z%d", accepted), nil, true},
		"20 others, and it was accepted earlier": {others(20, "a%d", accepted), &v1.SidecarGeneration{Generation: 1}, false},
		"20 others, one of which is deleted":     {ended, nil, false},
	} {
		s := State{Now: now, Sidecar: mesh(2), Others: row.others}
		s.Sidecar.Status.Injected = row.injected
		p := Diff(s)
		got := plan.ConditionsText(p.Status.Conditions)
		if strings.Contains(got, "Ready=False/TooMany(the namespace has 20 other Sidecars, and pods get at most 20") != row.tooMany || (p.Probe == nil) != row.tooMany {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// From each state, one plan ends the work, whether or not the API server accepts the Sidecar.
func TestOnePlanEndsTheWork(t *testing.T) {
	chance.ForSeeds(t, 300, func(t *testing.T, dice *rand.Rand) {
		s := State{Now: now, Sidecar: mesh(1)}
		for range 20 {
			switch dice.IntN(4) {
			case 0:
				s.Sidecar.Generation++
				s.Sidecar.Spec = mesh(s.Sidecar.Generation).Spec
			case 1:
				s.Sidecar.Status.Conditions = nil // a restore lost the status
			case 2:
				pod := podWith(fmt.Sprintf("mesh=%d/0/0/1", 1+dice.Int64N(s.Sidecar.Generation)), dice.IntN(2) == 0)
				if dice.IntN(4) == 0 {
					pod.Status.Phase = corev1.PodFailed
				}
				s.Pods = append(s.Pods, pod)
			case 3:
				s.Pods = s.Pods[:dice.IntN(len(s.Pods)+1)]
			}
			cluster := &spec.Cluster{Pods: s.Pods}
			p := Diff(s)
			if why := spec.SidecarDone(cluster, s.Sidecar); p.Status == nil && why != "" {
				t.Fatalf("the plan has no status, and remains: %s", why)
			}
			status := p.Status
			if p.Probe != nil && dice.IntN(2) == 0 {
				status, _ = WithFailure(s, plan.Failure{Reason: ReasonRefused, Message: "refused"})
			}
			if status != nil {
				s.Sidecar.Status = *status
			}
			if why := spec.SidecarDone(cluster, s.Sidecar); why != "" || Diff(s).Probe == nil && Diff(s).Status != nil {
				t.Fatalf("after\n%sremains: %s\nand\n%s", p, why, Diff(s))
			}
		}
	})
}
