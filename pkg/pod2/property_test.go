package pod2

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// The promises are written here again, independent of the code that keeps them.

func isOurs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == uid && r.Controller != nil && *r.Controller })
}

// restartsNow returns a container that was changed in place and is still the old one, or
// is going to restart for resources.
func restartsNow(pod *corev1.Pod) string {
	for i, s := range pod.Status.ContainerStatuses {
		asked := s.Resources != nil && !equality.Semantic.DeepEqual(*s.Resources, pod.Spec.Containers[i].Resources) && infeasible(pod) == ""
		if recordedInPlace(pod).Resizing && len(pod.Spec.Containers[i].ResizePolicy) > 0 && (asked || has(pod, corev1.PodResizeInProgress, "")) {
			return s.Name
		}
		if before := recordedInPlace(pod).Containers[s.Name]; s.ContainerID == before.ID && pod.Spec.Containers[i].Image != before.Image {
			return s.Name
		}
	}
	return ""
}

func checkPromises(t *testing.T, s State, p Plan) {
	t.Helper()
	broken := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\nstate\n%splan\n%s", fmt.Sprintf(format, args...), describe(s), p)
	}
	if why := undone(s); p.Empty() && why != "" {
		broken("the plan is empty, but the work is not done: %s", why)
	}
	have := objects(s)
	for _, c := range p.Create {
		have.Pods = append(have.Pods, c.Pod())
	}
	for _, created := range have.Pods[len(s.Pods):] {
		if why := spec.TooMany(created, have.Pods, spec.Most(have.Pod2s)); why != "" {
			broken("%s", why)
		}
	}
	for i, d := range p.Delete {
		if slices.ContainsFunc(p.Delete[:i], func(e PodDeletion) bool { return e.Name == d.Name }) {
			broken("%s is deleted twice", d.Name)
		}
	}
	for _, a := range p.Adopt {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == a.Name && pod.UID == a.UID })
		if i < 0 || slices.ContainsFunc(s.Pods[i].OwnerReferences, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }) {
			broken("S6: %s is adopted although it has a controller", a.Name)
		}
		if len(p.Create)+len(p.Delete) > 0 {
			broken("the plan decides before %s counts", a.Name)
		}
	}
	if s.Pod2.Spec.Paused || s.Pod2.Spec.UpdateStrategy.Type == v1.OnDelete {
		for _, d := range p.Delete {
			if d.cause == causeUpdate {
				broken("%s is updated", d.Name)
			}
		}
	}
	for _, d := range p.Delete {
		i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == d.Name && pod.UID == d.UID })
		if i < 0 {
			broken("%s is deleted, but does not exist", d.Name)
		} else if why := (spec.Write{Verb: "delete", Resource: "pods", Name: d.Name}).NotOurs(s.Pods[i], func(owner types.UID) bool { return owner == uid }); why != "" {
			broken("%s", why)
		}
	}
	for _, d := range p.Delete {
		if address := keptAddress(s, d); address != "" {
			broken("%s runs, and is deleted for address %s, which another owner keeps", d.Name, address)
		}
	}
	if why := brokenClaimPromise(s, p); why != "" {
		broken("%s", why)
	}
	if why := brokenLabelPromise(s, p); why != "" {
		broken("%s", why)
	}
	if s.Pod2.DeletionTimestamp != nil && !p.Empty() {
		broken("the plan writes for a Pod2 that is being deleted")
	}
	for _, why := range tooFew(s, p) {
		broken("%s", why)
	}
}

// tooFew checks S5 for a plan, pod by pod, in the order of its writes.
func tooFew(s State, p Plan) (problems []string) {
	pods := objects(s).Pods
	take := func(name string) {
		i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == name })
		if why := spec.TooFew(pods[i], pods, []*v1.Pod2{s.Pod2}, s.Now); why != "" {
			problems = append(problems, why)
		}
		pods = slices.Delete(pods, i, i+1)
	}
	restarts := func(name string, does func(corev1.Container) bool) {
		if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == name }); slices.ContainsFunc(pods[i].Spec.Containers, does) {
			take(name)
		}
	}
	for _, d := range p.Delete {
		take(d.Name)
	}
	for _, u := range p.InPlace {
		restarts(u.Name, func(c corev1.Container) bool { return u.Images[c.Name] != "" && u.Images[c.Name] != c.Image })
	}
	for _, u := range p.Resize {
		restarts(u.Name, func(c corev1.Container) bool { return len(c.ResizePolicy) > 0 })
	}
	return problems
}

func TestNothingBadHappens(t *testing.T) { chance.ForSeeds(t, 5000, nothingBadHappens) }

func FuzzDiff(f *testing.F) { chance.Fuzz(f, nothingBadHappens) }

func nothingBadHappens(t *testing.T, dice *rand.Rand) {
	s := arbitrary(dice)
	checkPromises(t, s, Diff(s))
}

func TestDiffIsAFunction(t *testing.T) {
	chance.ForSeeds(t, 1000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		copied := State{Now: s.Now, Pod2: s.Pod2.DeepCopy()}
		copied.Revisions = slices.Clone(s.Revisions)[:0]
		for _, r := range s.Revisions {
			copied.Revisions = append(copied.Revisions, r.DeepCopy())
		}
		for _, pod := range s.Pods {
			copied.Pods = append(copied.Pods, pod.DeepCopy())
		}
		for _, n := range s.Networks {
			copied.Networks = append(copied.Networks, n.DeepCopy())
		}
		copied.Claims, copied.StorageClasses, copied.Holders = slices.Clone(s.Claims)[:0], s.StorageClasses, slices.Clone(s.Holders)
		for _, c := range s.Claims {
			copied.Claims = append(copied.Claims, c.DeepCopy())
		}
		first, second := Diff(s), Diff(copied)
		if !reflect.DeepEqual(first, second) {
			t.Errorf("the same state gave two plans\n%s\nand\n%s", first, second)
		}
		// The caller owns the built pods.
		for _, c := range first.Create {
			pod := c.Pod()
			pod.Labels["x"] = "y"
			pod.Spec.Containers[0].Image = "changed"
		}
		if first.Status != nil {
			first.Status.Conditions[0].Message = "changed"
		}
		WithFailures(s, []plan.Failure{{Reason: "FailedCreate", Message: "x"}})
		if !reflect.DeepEqual(s, copied) {
			t.Error("the state was changed")
		}
	})
}

// While a Pod2 waits, time alone changes nothing before RequeueAfter, and it does at that
// time.
func TestRequeueAfterIsExact(t *testing.T) {
	waiting := 0
	chance.ForSeeds(t, 5000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		plan := Diff(s)
		if !plan.Empty() {
			return
		}
		later, start := s, s.Now
		if plan.RequeueAfter == 0 {
			later.Now = start.Add(time.Duration(dice.Int64N(int64(48 * time.Hour))))
			if p := Diff(later); !p.Empty() || p.RequeueAfter != 0 {
				t.Errorf("the plan had no RequeueAfter\n%s%s", describe(s), p)
			}
			return
		}
		waiting++
		later.Now = start.Add(time.Duration(dice.Int64N(int64(plan.RequeueAfter))))
		if p := Diff(later); !p.Empty() {
			t.Errorf("%s is too late\n%s%s", plan.RequeueAfter, describe(s), p)
		}
		later.Now = start.Add(plan.RequeueAfter)
		// The overdue pod may not be the first obstacle in the condition.
		isOverdue := func(pod *corev1.Pod) bool {
			return pod.DeletionTimestamp != nil && later.Now.Equal(pod.DeletionTimestamp.Add(overdue))
		}
		if p := Diff(later); p.Empty() && !slices.ContainsFunc(s.Pods, isOverdue) {
			t.Errorf("after %s nothing changed\n%s", plan.RequeueAfter, describe(s))
		}
	})
	t.Logf("%d states waited", waiting)
	if waiting < 12 {
		t.Errorf("only %d states waited: these states prove nothing", waiting)
	}
}

// describe writes a state for the report of a failure.
func describe(s State) string {
	var b strings.Builder
	strategy := s.Pod2.Spec.UpdateStrategy
	fmt.Fprintf(&b, "  replicas %d ordinals %v minReady %d strategy %s %s paused %t reserved %v", *s.Pod2.Spec.Replicas, s.Pod2.Spec.Ordinals, s.Pod2.Spec.MinReadySeconds, strategy.Type,
		s.Pod2.Spec.PodManagementPolicy, s.Pod2.Spec.Paused, s.Pod2.Spec.ReserveOrdinals)
	if r := strategy.RollingUpdate; r != nil {
		fmt.Fprintf(&b, " max %s surge %s partition %d", r.MaxUnavailable, r.MaxSurge, r.Partition)
	}
	fmt.Fprintf(&b, "\n  status %s\n  backoff %s\n", statusText(&s.Pod2.Status), s.Pod2.Annotations[v1.BackoffAnnotation])
	for _, pod := range s.Pods {
		ready := "-"
		if c := attachment.Condition(pod, corev1.PodReady); c != nil {
			ready = fmt.Sprintf("%s for %s", c.Status, s.Now.Sub(c.LastTransitionTime.Time))
		}
		fmt.Fprintf(&b, "  %s (uid %s) owned %t terminating %t %s ready %s gates %d request %q updated %t\n", pod.Name, pod.UID, isOurs(pod),
			pod.DeletionTimestamp != nil, pod.Status.Phase, ready, len(pod.Spec.SchedulingGates), pod.Annotations[v1.Pod2RequestAnnotation],
			pod.Labels[v1.PodTemplateHashLabel] == RevisionHash(s.Pod2))
	}
	return b.String() + describeClaims(s)
}

// keptAddress returns an address that another owner keeps, and for which a running pod is
// deleted.
func keptAddress(s State, d PodDeletion) string {
	place, placed := Ordinals(s.Pod2).Place(ordinalOf(d.Name))
	i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.UID == d.UID })
	if d.cause != causeUpdate || !placed || place >= int(*s.Pod2.Spec.Replicas) || s.Pods[i].Status.Phase != corev1.PodRunning || len(s.Pods[i].Spec.SchedulingGates) > 0 {
		return ""
	}
	for _, n := range s.Pod2.Spec.Networks {
		first := int32(0)
		if s.Pod2.Spec.Ordinals != nil {
			first = s.Pod2.Spec.Ordinals.Start
		}
		for _, h := range s.Holders {
			if at := int(ordinalOf(d.Name) - first); at >= 0 && at < len(n.Addresses) && h.Network == n.Name && h.Address == string(n.Addresses[at]) {
				return h.Address
			}
		}
	}
	return ""
}

func ordinalOf(name string) int32 {
	n, _ := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	return int32(n)
}
