package pod2

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
)

// A decision that looks at all replicas is the same as one that skips the steady ones.
func TestSteadyReplicasDecideNothing(t *testing.T) {
	var steady atomic.Int64
	chance.ForSeeds(t, 5000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice)
		if s.Pod2.DeletionTimestamp != nil {
			return
		}
		s.Sidecars = map[types.UID]SidecarUpdate{}
		for _, pod := range s.Pods {
			if chance.One(dice, 8) {
				s.Sidecars[pod.UID] = SidecarUpdate{Name: "mesh", Images: map[string]string{pod.Spec.Containers[0].Name: "mesh:2"}}
			}
		}
		steady.Add(int64(look(s).steady.count))
		want, got := lookFor(s, func(*view, int, replica) bool { return false }).plan(s), Diff(s)
		if got.String() != want.String() || !reflect.DeepEqual(got.Status, want.Status) {
			t.Errorf("state\n%sthe plan is\n%s\nwith a look at all replicas\n%s", describe(s), got, want)
		}
	})
	if n := steady.Load(); n < 100 {
		t.Errorf("only %d replicas are steady: these states prove nothing", n)
	}
}

// Without the pods of steady replicas, a later State that fits gives the same plan.
func TestSteadyReplicasMayBeLeftOut(t *testing.T) {
	var left, claims, misfits atomic.Int64
	chance.ForSeeds(t, 10000, func(t *testing.T, dice *rand.Rand) {
		earlier := arbitrary(dice)
		all := later(dice, earlier)
		steady := Diff(earlier).Steady()
		if !steady.Fits(all) {
			misfits.Add(1)
			return
		}
		changed := map[string]bool{}
		for _, pods := range [][]*corev1.Pod{earlier.Pods, all.Pods} {
			for _, pod := range pods {
				changed[pod.Name] = !slices.Contains(earlier.Pods, pod) || !slices.Contains(all.Pods, pod)
			}
		}
		maps.DeleteFunc(changed, func(_ string, is bool) bool { return !is })
		claimed := map[string]bool{}
		for _, list := range [][]*corev1.PersistentVolumeClaim{earlier.Claims, all.Claims} {
			for _, claim := range list {
				if ordinal, ok := ClaimOrdinal(all.Pod2, claim.Name); ok && (!slices.Contains(earlier.Claims, claim) || !slices.Contains(all.Claims, claim)) {
					claimed[ordinals.Name(all.Pod2.Name, ordinal)] = true
				}
			}
		}
		steady = steady.Without(claimed)
		s := all
		s.Steady = steady.Without(changed)
		s.Pods = slices.DeleteFunc(slices.Clone(all.Pods), s.Steady.has)
		s.Claims = slices.DeleteFunc(slices.Clone(all.Claims), func(claim *corev1.PersistentVolumeClaim) bool {
			ordinal, ok := ClaimOrdinal(all.Pod2, claim.Name)
			place, placed := s.Steady.place(ordinals.Name(all.Pod2.Name, ordinal))
			return ok && placed && s.Steady.replicas.at(place) != nil
		})
		left.Add(int64(len(all.Pods) - len(s.Pods)))
		claims.Add(int64(len(all.Claims) - len(s.Claims)))
		if among, others := steady.Among(all.Pods); among.Count() != s.Steady.Count() || !slices.Equal(others, s.Pods) {
			t.Errorf("state\n%s%d replicas are steady, and %d among all pods", describe(all), s.Steady.Count(), among.Count())
		}

		want, got := Diff(all), Diff(s)
		if got.String() != want.String() || !reflect.DeepEqual(got.Status, want.Status) || !reflect.DeepEqual(WithFailures(s, failed), WithFailures(all, failed)) {
			t.Errorf("state\n%swithout\n%s\nthe plan is\n%s\nwith all pods\n%s", describe(all), describe(s), got, want)
		}
		if len(want.Adopt) > 0 && got.WithoutAdoption(false).String() != want.WithoutAdoption(false).String() {
			t.Errorf("state\n%swithout an adoption the plan is\n%s\nwith all pods\n%s", describe(all), got.WithoutAdoption(false), want.WithoutAdoption(false))
		}
		if !slices.Equal(got.Others(), want.Others()) || !slices.Equal(got.OtherClaims(), want.OtherClaims()) {
			t.Errorf("state\n%sthe pods and PVCs that are not steady are %d and %d, with all pods %d and %d", describe(all),
				len(got.Others()), len(got.OtherClaims()), len(want.Others()), len(want.OtherClaims()))
		}
	})
	if left.Load() < 100 || claims.Load() < 100 || misfits.Load() < 100 {
		t.Errorf("%d pods and %d PVCs were left out, and %d states did not fit: these states prove nothing", left.Load(), claims.Load(), misfits.Load())
	}
}

var failed = []plan.Failure{{Reason: ReasonFailedCreate, Message: "x"}}

// later returns the State with some pods, and perhaps something else, changed.
func later(dice *rand.Rand, s State) State {
	s.Now = s.Now.Add(time.Duration(dice.IntN(20)) * time.Second)
	pods := s.Pods
	s.Pods = nil
	for _, pod := range pods {
		switch dice.IntN(12) {
		case 0: // it is gone
		case 1:
			s.Pods = append(s.Pods, arbitraryPod(dice, s.Pod2, pod.Name, 1))
		default:
			s.Pods = append(s.Pods, pod)
		}
	}
	s.Claims = slices.DeleteFunc(slices.Clone(s.Claims), func(*corev1.PersistentVolumeClaim) bool { return chance.One(dice, 20) })
	for i, claim := range s.Claims {
		if chance.One(dice, 12) {
			s.Claims[i] = claim.DeepCopy()
			s.Claims[i].Labels = nil
		}
	}
	s.Pod2 = s.Pod2.DeepCopy()
	other := arbitraryPod2(dice)
	switch dice.IntN(20) {
	case 0:
		s.Pod2.Spec, s.Pod2.Generation = other.Spec, 4
	case 1:
		s.Pod2.Spec.MinReadySeconds, s.Pod2.Generation = 10, 4
	case 2:
		s.Pod2.Spec.ReserveOrdinals, s.Pod2.Generation = other.Spec.ReserveOrdinals, 4
	case 3:
		s.Pod2.Labels = other.Labels
	case 4:
		s.Pod2.UID = "u-new"
	case 5:
		s.Now = now.Add(-time.Minute)
	case 6:
		s.Revisions = slices.Clone(s.Revisions)
		for i, r := range s.Revisions { // a user changes the label of one
			if chance.One(dice, 2) {
				s.Revisions[i] = r.DeepCopy()
				s.Revisions[i].Labels[v1.PodTemplateHashLabel] = "changed"
			}
		}
	case 7:
		if status := Diff(s).Status; status != nil {
			s.Pod2.Status = *status
		}
	case 8:
		s.Pod2.Annotations = nil
	case 9:
		s.Pod2.Status.CollisionCount = ptr.To(int32(1))
	}
	return s
}

// has reports whether this version of a pod is a steady replica.
func (k *Steady) has(pod *corev1.Pod) bool {
	place, ok := k.place(pod.Name)
	return ok && k.replicas.at(place) != nil && k.replicas.at(place).pod == pod
}
