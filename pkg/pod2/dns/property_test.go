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
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// arbitrary returns a state, as words for state, that the controller need not be able to
// reach. Half of the states result from a plan, and were then changed.
func arbitrary(t *testing.T, dice *rand.Rand) (s State, from string) {
	one := func(in int) bool { return dice.IntN(in) == 0 }
	some := func(in int, words ...string) string {
		var chosen []string
		for _, w := range words {
			if one(in) {
				chosen = append(chosen, w)
			}
		}
		return strings.Join(chosen, " ")
	}
	spec := []string{"", "networks=blue", "networks=blue,green", "template=blue", "networks=blue," + strings.Repeat("x", 60)}[dice.IntN(5)] + " " + some(6, "said", "generation=2")
	if one(20) {
		spec += " going"
	}
	var pods, others []string
	for _, name := range []string{"web-0", "web-1", "web-99", "web-100", "web-250", "web-01", "other"} {
		if one(2) {
			pods = append(pods, fmt.Sprintf("%s %s %s", name, some(2, "blue=10.0.0.2", "green=fd00::2"), some(8, "blue=fd00::7", "green=127.0.0.1",
				"notready", "terminating", "gated", "over", "node=n1", "bare", "orphan", "earlier", "uid=other")))
		}
	}
	for _, name := range []string{"web-blue", "web-green", "web-red"} {
		if one(2) {
			others = append(others, "service "+name+" "+some(10, "bare", "orphan", "earlier", "of=Pod2/other", "going", "selector", "quiet", "unlabelled", "ports", "vip"))
		}
	}
	for _, name := range []string{"web-blue-0", "web-blue-0-v6", "web-blue-1", "web-blue-2", "web-green-0-v6", "web-green-1-v6", "web-green-7", "web-red-0", "odd-0"} {
		if one(3) {
			others = append(others, "slice "+name+" "+some(2, "web-0=10.0.0.2", "web-1=10.0.0.2", "web-100=10.0.0.2", "web-7=fd00::7")+" "+
				some(10, "bare", "orphan", "earlier", "of=Pod2/other", "going", "ports", "unlabelled", "fqdn"))
		}
	}
	from = fmt.Sprintf("%s %q", spec, slices.Concat(pods, others))
	s = state(t, spec, slices.Concat(pods, others)...)
	if one(2) {
		apply(&s, Diff(s))
		apply(&s, Diff(s))
		if one(2) && len(s.Pods) > 0 {
			i := dice.IntN(len(s.Pods))
			from += " applied, without " + s.Pods[i].Name
			s.Pods = slices.Delete(slices.Clone(s.Pods), i, i+1)
		} else {
			from += " applied"
		}
	}
	return s, from
}

// apply applies a plan to the state like the API server; terminating objects are removed.
func apply(s *State, p Plan) {
	gone := func(o metav1.Object, deletions []plan.Deletion) bool {
		return o.GetDeletionTimestamp() != nil || slices.ContainsFunc(deletions, func(d plan.Deletion) bool { return d.Name == o.GetName() })
	}
	s.Slices = slices.DeleteFunc(slices.Clone(s.Slices), func(is *discoveryv1.EndpointSlice) bool { return gone(is, slices.Concat(p.Withdraw, p.DeleteSlices)) })
	s.Services = slices.DeleteFunc(slices.Clone(s.Services), func(is *corev1.Service) bool { return gone(is, p.DeleteServices) })
	for _, w := range p.Services {
		if w.Create != nil {
			s.Services = append(s.Services, w.Create)
		}
		if w.Update != nil {
			s.Services = replaced(s.Services, w.Update.Object)
		}
		s.Slices = append(s.Slices, w.CreateSlices...)
		for _, u := range w.UpdateSlices {
			s.Slices = replaced(s.Slices, u.Object)
		}
	}
	slices.SortFunc(s.Services, func(a, b *corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Slices, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	if p.Status != nil {
		s.Pod2 = s.Pod2.DeepCopy()
		s.Pod2.Status = *p.Status
	}
}

func replaced[T metav1.Object](objects []T, next T) []T {
	objects = slices.Clone(objects)
	for i, o := range objects {
		if o.GetName() == next.GetName() {
			objects[i] = next
		}
	}
	return objects
}

func copied(s State) State {
	c := State{Now: s.Now, Pod2: s.Pod2.DeepCopy(), Pods: slices.Clone(s.Pods), Services: slices.Clone(s.Services), Slices: slices.Clone(s.Slices)}
	for i := range c.Pods {
		c.Pods[i] = c.Pods[i].DeepCopy()
	}
	for i := range c.Services {
		c.Services[i] = c.Services[i].DeepCopy()
	}
	for i := range c.Slices {
		c.Slices[i] = c.Slices[i].DeepCopy()
	}
	return c
}

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
