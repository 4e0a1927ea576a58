package dns

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/plan"
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
			others = append(others, "slice "+name+" "+some(2, "web-0=10.0.0.2", "web-1=10.0.0.2", "web-100=10.0.0.2", "web-7=fd00::7", "other=10.0.0.8")+" "+
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
