package dns

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

func TestNothingBadHappens(t *testing.T) { chance.ForSeeds(t, 4000, nothingBadHappens) }

func FuzzDiff(f *testing.F) { chance.Fuzz(f, nothingBadHappens) }

func nothingBadHappens(t *testing.T, dice *rand.Rand) {
	s, from := arbitrary(t, dice)
	before := copied(s)
	p := Diff(s)
	broken := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\nstate %s\nplan\n%s", fmt.Sprintf(format, args...), from, p)
	}
	if why := undone(s); p.Empty() && why != "" {
		broken("the plan is empty, but the work is not done: %s", why)
	}
	if !reflect.DeepEqual(p, Diff(before)) {
		broken("the second plan differs")
	}
	if !reflect.DeepEqual(before, s) {
		broken("the state was changed")
	}
	for _, problem := range touched(s, p) {
		broken("S6: %s", problem)
	}
	if p.Empty() && len(p.ConfirmGone) > 0 {
		broken("reads, and writes nothing")
	}
	for _, problem := range exposes(s, p) {
		broken("%s", problem)
	}
}

// exposes returns the writes of a plan, in their order, that leave an owned slice beside a
// bad Service: it is not owned, or it has ports. Only the withdrawn slices were beside one
// before.
func exposes(s State, p Plan) (problems []string) {
	step := func(what string, one Plan) {
		apply(&s, one)
		for _, slice := range s.Slices {
			i := slices.IndexFunc(s.Services, func(is *corev1.Service) bool { return is.Name == slice.Labels[discoveryv1.LabelServiceName] })
			fit := i >= 0 && metav1.IsControlledBy(s.Services[i], s.Pod2) && s.Services[i].Labels[v1.Pod2Label] == s.Pod2.Name && len(s.Services[i].Spec.Ports) == 0
			made := metav1.IsControlledBy(slice, s.Pod2) || withoutController(slice, s.Pod2) && slice.Labels[discoveryv1.LabelManagedBy] == "pod2-controller"
			if made && !fit && slice.Labels[discoveryv1.LabelServiceName] != "" {
				problems = append(problems, fmt.Sprintf("%s: slice %s is exposed", what, slice.Name))
			}
		}
	}
	step("withdraw", Plan{Withdraw: p.Withdraw})
	step("delete slices", Plan{DeleteSlices: p.DeleteSlices})
	step("delete Services", Plan{DeleteServices: p.DeleteServices})
	for _, w := range p.Services {
		step("Service", Plan{Services: []ServiceWrites{{Create: w.Create, Update: w.Update}}})
		step("slices", Plan{Services: []ServiceWrites{{CreateSlices: w.CreateSlices, UpdateSlices: w.UpdateSlices}}})
	}
	return problems
}

// touched returns the writes of a plan to objects of other owners, or creations of
// objects that exist.
func touched(s State, p Plan) (problems []string) {
	owners := map[string]bool{} // whether the Pod2 owns the object with the name
	adoptable := map[string]bool{}
	for _, is := range s.Services {
		owners["Service "+is.Name] = metav1.IsControlledBy(is, s.Pod2)
		adoptable["Service "+is.Name] = withoutController(is, s.Pod2)
	}
	for _, is := range s.Slices {
		owners["slice "+is.Name] = metav1.IsControlledBy(is, s.Pod2)
		adoptable["slice "+is.Name] = withoutController(is, s.Pod2) && is.Labels[discoveryv1.LabelManagedBy] == "pod2-controller"
	}
	change := func(what string) {
		if !owners[what] {
			problems = append(problems, what+" is changed, but has another owner")
		}
	}
	update := func(what string, next metav1.Object) {
		adopted := adoptable[what] && metav1.IsControlledBy(next, s.Pod2)
		if !owners[what] && !adopted {
			problems = append(problems, what+" is updated, but neither owned nor adopted")
		}
	}
	create := func(what string) {
		if _, there := owners[what]; there {
			problems = append(problems, what+" already exists")
		}
	}
	for _, d := range slices.Concat(p.Withdraw, p.DeleteSlices) {
		if what := "slice " + d.Name; !adoptable[what] {
			change(what)
		}
	}
	for _, d := range p.DeleteServices {
		change("Service " + d.Name)
	}
	for _, w := range p.Services {
		if w.Create != nil {
			create("Service " + w.Create.Name)
		}
		if w.Update != nil {
			update("Service "+w.Update.Object.Name, w.Update.Object)
		}
		for _, slice := range w.CreateSlices {
			create("slice " + slice.Name)
		}
		for _, u := range w.UpdateSlices {
			update("slice "+u.Object.Name, u.Object)
		}
	}
	return problems
}

func withoutController(o metav1.Object, p *v1.Pod2) bool {
	return len(o.GetOwnerReferences()) == 0 && o.GetLabels()[v1.Pod2Label] == p.Name
}

// After at most five rounds of writes, nothing is left to write. (Another owner's Service
// is deleted, the controller creates its own, an orphaned slice is adopted, deleted and
// recreated.) Then every live replica that publishes has its DNS name, once, on each
// Network whose Service no other owner has. No other pod has a name.
func TestEveryReplicaHasItsName(t *testing.T) {
	named := 0
	chance.ForSeeds(t, 2000, func(t *testing.T, dice *rand.Rand) {
		s, from := arbitrary(t, dice)
		var rounds strings.Builder
		for range 5 {
			p := Diff(s)
			apply(&s, p)
			fmt.Fprintf(&rounds, "then\n%s", p)
		}
		if p := Diff(s); !p.Empty() {
			t.Errorf("state %s\n%sand still\n%s", from, &rounds, p)
		}
		if s.Pod2.DeletionTimestamp != nil {
			return
		}
		want, got := wantedNames(s), givenNames(s)
		named += len(want)
		if !slices.Equal(got, want) {
			t.Errorf("state %s\n%snames %v, want %v", from, &rounds, got, want)
		}
	})
	if named < 250 {
		t.Errorf("only %d names: these states prove nothing", named)
	}
}

// wantedNames returns "web-0.web-blue=10.0.0.2" and so on for any spec, except for
// Services and slices of other owners.
func wantedNames(s State) (names []string) {
	for _, network := range []string{"blue", "green"} {
		i := slices.IndexFunc(s.Services, func(is *corev1.Service) bool { return is.Name == "web-"+network })
		if i >= 0 && !metav1.IsControlledBy(s.Services[i], s.Pod2) {
			continue
		}
		for _, pod := range s.Pods {
			if !metav1.IsControlledBy(pod, s.Pod2) && !withoutController(pod, s.Pod2) || pod.Name == "other" || pod.Name == "web-01" || len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			a, ok := attachment.Published(pod)[network]
			if !ok || a.Address.Addr().IsLoopback() {
				continue
			}
			slice := fmt.Sprintf("web-%s-%d", network, map[string]int{"web-100": 1, "web-250": 2}[pod.Name])
			if a.Address.Addr().Is6() {
				slice += "-v6"
			}
			blocked := slices.ContainsFunc(s.Slices, func(is *discoveryv1.EndpointSlice) bool {
				return is.Name == slice && (!metav1.IsControlledBy(is, s.Pod2) || is.AddressType == discoveryv1.AddressTypeFQDN)
			})
			if !blocked {
				names = append(names, fmt.Sprintf("%s.web-%s=%s", pod.Name, network, a.Address.Addr()))
			}
		}
	}
	slices.Sort(names)
	return names
}

// givenNames returns the names that a DNS server would read from the owned slices, and
// from those that an earlier Pod2 left to the owned Services.
func givenNames(s State) (names []string) {
	for _, slice := range s.Slices {
		left := withoutController(slice, s.Pod2) && slices.ContainsFunc(s.Services, func(is *corev1.Service) bool {
			return is.Name == slice.Labels[discoveryv1.LabelServiceName] && metav1.IsControlledBy(is, s.Pod2)
		})
		if !metav1.IsControlledBy(slice, s.Pod2) && !left {
			continue
		}
		for _, e := range slice.Endpoints {
			names = append(names, fmt.Sprintf("%s.%s=%s", *e.Hostname, slice.Labels[discoveryv1.LabelServiceName], e.Addresses[0]))
		}
	}
	slices.Sort(names)
	return names
}

func undone(s State) string {
	return spec.NamesDone(&spec.Cluster{Now: s.Now, Pods: s.Pods, Services: s.Services, EndpointSlices: s.Slices}, s.Pod2)
}

func TestPodsThatAreAlikeLeadToTheSamePlan(t *testing.T) {
	changes := []func(*corev1.Pod){
		func(pod *corev1.Pod) { pod.ResourceVersion += "1" },
		func(pod *corev1.Pod) { pod.Status.Message = "x" },
		func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning },
		func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "a", "b") },
		func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AddressesAnnotation, "{}") },
		func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, v1.Pod2Label, "other") },
		func(pod *corev1.Pod) { pod.UID = "another" },
		func(pod *corev1.Pod) { pod.Spec.NodeName = "another" },
		func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil },
		func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed },
		func(pod *corev1.Pod) { pod.Status.Conditions = nil },
		func(pod *corev1.Pod) { pod.OwnerReferences = nil },
		func(pod *corev1.Pod) { pod.DeletionTimestamp = nil },
	}
	alike := 0
	chance.ForSeeds(t, 4000, func(t *testing.T, dice *rand.Rand) {
		s, from := arbitrary(t, dice)
		if len(s.Pods) == 0 {
			return
		}
		i := dice.IntN(len(s.Pods))
		if chance.One(dice, 3) { // only the labels of an orphan matter
			s.Pods[i].OwnerReferences = nil
		}
		was, is := s.Pods[i], s.Pods[i].DeepCopy()
		for range 1 + dice.IntN(2) {
			changes[dice.IntN(len(changes))](is)
		}
		if !Alike(was, is) {
			return
		}
		alike++
		before := Diff(s)
		s.Pods = slices.Clone(s.Pods)
		if s.Pods[i] = is; !reflect.DeepEqual(Diff(s), before) {
			t.Errorf("state %s\nplan\n%s\nafter a change of %s\n%s", from, before, is.Name, Diff(s))
		}
	})
	if alike == 0 {
		t.Error("no pods were alike")
	}
}
