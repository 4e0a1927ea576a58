package sidecar

import (
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
)

// withVolumes returns a Sidecar with some volumes, of which pods get others, "-" for none yet.
func withVolumes(name, volumes, injected string) *v1.Sidecar {
	of := func(names string) (spec v1.SidecarSpec) {
		spec.Selector = map[string]string{"app": "web"}
		for _, volume := range strings.Fields(names) {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: volume})
		}
		return spec
	}
	s := mesh(2)
	s.Name, s.Spec = name, of(volumes)
	if injected != "-" {
		s.Status.Injected = &v1.SidecarGeneration{Generation: 1, Spec: of(injected)}
	}
	return s
}

func readyText(p Plan) string {
	is := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionReady)
	return is.Reason + " " + is.Message
}

// Of two changed Sidecars with the same new part, one is accepted, even if no sync sees the status of the other one.
func TestTwoPendingSidecars(t *testing.T) {
	const aFirst, bFirst = "Conflict Sidecar a has the volume tls", "Conflict Sidecar b has the volume tls"
	for name, row := range map[string]struct{ a, aInjected, b, bInjected, wantA, wantB string }{
		"both get it":                          {"tls", "", "tls", "", "", aFirst},
		"both get it, and are new":             {"tls", "-", "tls", "-", "", aFirst},
		"a gets it, and b is new":              {"tls", "", "tls", "-", "", aFirst},
		"b gets it, and a is new":              {"tls", "-", "tls", "", "", aFirst},
		"b has it already":                     {"tls", "", "tls x", "tls", bFirst, ""},
		"a has it already":                     {"tls x", "tls", "tls", "", "", aFirst},
		"it moves from b to a":                 {"tls", "", "", "tls", bFirst, ""},
		"it moves from a to b":                 {"", "tls", "tls", "", "", aFirst},
		"b is accepted":                        {"tls", "", "tls", "tls", bFirst, "Accepted"},
		"a is accepted":                        {"tls", "tls", "tls", "", "Accepted", aFirst},
		"both are accepted, on older views":    {"tls", "tls", "tls", "tls", "Accepted", aFirst},
		"the same, and b is to lose it":        {"tls", "tls", "", "tls", "Accepted", ""},
		"the same, and a is to lose it":        {"", "tls", "tls", "tls", "", aFirst},
		"the same, and a gets something else":  {"tls x", "tls", "tls", "tls", bFirst, aFirst},
		"the parts differ, and both are ready": {"tls", "tls", "x", "x", "Accepted", "Accepted"},
	} {
		a, b := withVolumes("a", row.a, row.aInjected), withVolumes("b", row.b, row.bInjected)
		for _, of := range []struct {
			s, other *v1.Sidecar
			want     string // "" is a dry run
		}{{a, b, row.wantA}, {b, a, row.wantB}} {
			p := Diff(State{Now: now, Sidecar: of.s, Others: []*v1.Sidecar{of.other}})
			if got := readyText(p); (p.Probe != nil) != (of.want == "") || !strings.HasPrefix(got, of.want) {
				t.Errorf("%s: %s: got %s, want %q", name, of.s.Name, got, of.want)
			}
		}
	}
}

// A Sidecar in conflict stays in new pods, and its condition does not change until one of the two Sidecars does.
func TestAConflictOfAcceptedSidecarsStays(t *testing.T) {
	s := State{Now: now, Sidecar: withVolumes("b", "tls", "tls"), Others: []*v1.Sidecar{withVolumes("a", "tls", "tls")}}
	const why = "Sidecar a has the volume tls too, and can select the same pods: rename one, or change a selector"
	p := Diff(s)
	same(t, p.String(), "status matched 0 upToDate 0 ready 0 injected 1 Ready=False/Conflict("+why+")\nevent Warning Conflict: "+why)
	s.Sidecar.Status = *p.Status
	same(t, Diff(s).String(), "")
	s.Others[0] = withVolumes("a", "", "")
	same(t, Diff(s).String(), "status matched 0 upToDate 0 ready 0 injected 1 Ready=True/Accepted(the API server accepted a pod with generation 1)")
}

// With views of all ages, the syncs end. Of two Sidecars that some pods cannot both have, one then reports the conflict.
func TestOfTwoConflictingSidecarsOneIsNotReady(t *testing.T) {
	chance.ForSeeds(t, 1000, func(t *testing.T, dice *rand.Rand) {
		names := []string{"a", "b", "c"}
		history := map[string][]*v1.Sidecar{}
		latest := func(name string) *v1.Sidecar { return history[name][len(history[name])-1] }
		for _, name := range names {
			history[name] = []*v1.Sidecar{withVolumes(name, "own-"+name, "-")}
		}
		// sync is of the latest version of a Sidecar. Those of the others are as many versions old, at most.
		sync := func(name string, age int) bool {
			s := State{Now: now, Sidecar: latest(name).DeepCopy()}
			for _, other := range names {
				if versions := history[other]; other != name {
					s.Others = append(s.Others, versions[max(len(versions)-1-dice.IntN(age+1), 0)])
				}
			}
			p := Diff(s)
			if p.Status != nil {
				s.Sidecar.Status = *p.Status
				history[name] = append(history[name], s.Sidecar)
			}
			return p.Status != nil
		}
		for range 30 {
			name := names[dice.IntN(len(names))]
			if dice.IntN(2) == 0 {
				sync(name, 2)
				continue
			}
			is := latest(name).DeepCopy()
			is.Generation++
			is.Spec = withVolumes(name, []string{"own-" + name, "x", "y", "x y"}[dice.IntN(4)], "-").Spec
			history[name] = append(history[name], is)
		}
		for rounds := 0; ; rounds++ {
			changed := false
			for _, name := range names {
				changed = sync(name, 0) || changed
			}
			if !changed {
				break
			}
			if rounds > 2*len(names) {
				t.Fatal("the syncs do not end")
			}
		}
		for i, name := range names {
			for _, other := range names[:i] {
				a, b := latest(other), latest(name)
				if a.Status.Injected == nil || b.Status.Injected == nil || common(a.Status.Injected.Spec, b.Status.Injected.Spec) == "" {
					continue
				}
				if text := plan.ConditionsText(a.Status.Conditions) + plan.ConditionsText(b.Status.Conditions); !strings.Contains(text, "Ready=False/Conflict") {
					t.Errorf("pods get %s from both %s and %s:%s", common(a.Status.Injected.Spec, b.Status.Injected.Spec), other, name, text)
				}
			}
		}
	})
}
