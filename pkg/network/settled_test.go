package network

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/chance"
)

// Known, and the pods left out because of it, change no decision.
func TestSettledPodsMayBeLeftOut(t *testing.T) {
	leftOut, quiet, planned := 0, 0, 0
	chance.ForSeeds(t, 2*states, func(t *testing.T, dice *rand.Rand) {
		text := arbitrary(dice)
		s := parse(t, text)
		settleSome(dice, &s)
		less := reduced(dice, s)
		whole, part := Diff(s), Diff(less)
		if !reflect.DeepEqual(whole, part) {
			t.Errorf("in a state made of\n%s\nwith all pods\n%s\nwithout some\n%s", text, whole, part)
		}
		leftOut += len(s.Pods) - len(less.Pods)
		for _, k := range less.Known {
			if k.Quiet() {
				quiet++
				planned += len(part.Blocks)
			}
		}
	})
	if leftOut < states/8 || quiet < states/40 || planned < states/200 {
		t.Errorf("%d pods left out, %d quiet blocks, %d writes in other blocks: too few to prove anything", leftOut, quiet, planned)
	}
}

// settleSome changes some pods so that they publish the addresses bound to them.
func settleSome(dice *rand.Rand, s *State) {
	for _, b := range s.Blocks {
		if chance.One(dice, 2) {
			b.Finalizers = []string{v1.InUseFinalizer}
			held := boundIn(b)
			b.Spec.Entries = slices.DeleteFunc(b.Spec.Entries, func(e v1.AddressEntry) bool {
				addr, err := netip.ParseAddr(e.Address)
				if err != nil || held[addr].pod != e.Pod || e.State != v1.AddressBound {
					return true
				}
				delete(held, addr)
				return false
			})
		}
		for _, e := range b.Spec.Entries {
			i := slices.IndexFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == e.Pod })
			if addr, err := netip.ParseAddr(e.Address); err == nil && i >= 0 && !chance.One(dice, 6) {
				publishing(dice, s, s.Pods[i], addr, e)
			}
		}
	}
}

func publishing(dice *rand.Rand, s *State, pod *corev1.Pod, addr netip.Addr, e v1.AddressEntry) {
	pod.UID, pod.Spec.SchedulingGates = e.PodUID, nil
	pod.Annotations[v1.AddressesAnnotation] = attachment.FormatAddresses(map[string]attachment.Address{s.Name: {Address: netip.PrefixFrom(addr, addr.BitLen())}})
	if !chance.One(dice, 6) {
		pod.Status = corev1.PodStatus{}
	}
	if e.Owner != (v1.AddressOwner{}) && !chance.One(dice, 6) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: e.Owner.Kind, Name: e.Owner.Name, UID: "u-owner", Controller: ptr.To(true)}}
	}
}

// reduced leaves out some or all of the parts that may be left out.
func reduced(dice *rand.Rand, s State) State {
	pods, settles, needed := map[string]*corev1.Pod{}, map[string]bool{}, map[string]bool{}
	for _, pod := range s.Pods {
		pods[pod.Name] = pod
	}
	s.Known = map[*v1.AddressBlock]*Known{}
	for _, b := range s.Blocks {
		page, ok := Read(b)
		if !ok {
			continue
		}
		known := &Known{Page: page}
		for i := range page.Size() {
			name := page.PodName(i)
			if bits, ok := page.Settles(i, pods[name]); ok && !chance.One(dice, 20) {
				known.Settle(i, bits)
				settles[name] = true
			} else {
				needed[name] = true
			}
		}
		s.Known[b] = known
	}
	for _, n := range s.Neighbours {
		for _, b := range n.Blocks {
			if page, ok := Read(b); ok {
				s.Known[b] = &Known{Page: page}
			}
		}
	}
	s.Pods = slices.Clone(s.Pods)
	s.Pods = slices.DeleteFunc(s.Pods, func(pod *corev1.Pod) bool {
		return settles[pod.Name] && !needed[pod.Name] && !chance.One(dice, 20)
	})
	return s
}

func TestSettles(t *testing.T) {
	for _, test := range []struct {
		name, entry, pod string
		want             bool
	}{
		{"publishes it", "10.0.0.2 Bound a/u", "a/u has=blue:10.0.0.2/24", true},
		{"belongs to the owner", "10.0.0.2 Bound a/u Pod2/web", "a/u has=blue:10.0.0.2/24 of=Pod2/web", true},
		{"lost its owner", "10.0.0.2 Bound a/u Pod2/web", "a/u has=blue:10.0.0.2/24", true},
		{"is terminating", "10.0.0.2 Bound a/u", "a/u has=blue:10.0.0.2/24 terminating", true},
		{"was adopted", "10.0.0.2 Bound a/u", "a/u has=blue:10.0.0.2/24 of=Pod2/web", false},
		{"has another UID", "10.0.0.2 Bound a/u", "a/v has=blue:10.0.0.2/24", false},
		{"terminated", "10.0.0.2 Bound a/u", "a/u has=blue:10.0.0.2/24 phase=Failed", false},
		{"has yet to publish", "10.0.0.2 Bound a/u", "a/u gated asks=blue", false},
		{"has an annotation of another client", "10.0.0.2 Bound a/u", "a/u gated has=blue:10.0.0.2/24", false},
		{"publishes another address", "10.0.0.2 Bound a/u", "a/u has=blue:10.0.0.3/24", false},
		{"publishes the address of another Network", "10.0.0.2 Bound a/u", "a/u has=green:10.0.0.2/24", false},
		{"says that it waits", "10.0.0.2 Bound a/u", "a/u has=blue:10.0.0.2/24 condition=False/AddressConflict", false},
		{"waited once", "10.0.0.2 Bound a/u", "a/u has=blue:10.0.0.2/24 condition=True/Published", true},
		{"had terminated before", "10.0.0.2 Resting a", "a/u has=blue:10.0.0.2/24", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, "network blue 10.0.0.0/24\n"+test.entry+"\npod "+test.pod)
			page, _ := Read(s.Blocks[0])
			if _, got := page.Settles(0, s.Pods[0]); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
