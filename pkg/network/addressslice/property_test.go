package addressslice

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// objects are those of the State, for the specification: a pod for each address, on a node for
// each host.
func objects(s State) *spec.Cluster {
	c := &spec.Cluster{Networks: []*v1.Network{s.Network}, AddressSlices: s.Slices}
	block := &v1.AddressBlock{Spec: v1.AddressBlockSpec{Network: s.Name, NetworkUID: s.Network.UID}}
	run := func(address, node string) {
		c.Pods = append(c.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: address, UID: types.UID(address)}, Spec: corev1.PodSpec{NodeName: node}})
		block.Spec.Entries = append(block.Spec.Entries, v1.AddressEntry{Address: address, Pod: address, PodUID: types.UID(address), State: v1.AddressBound})
	}
	for address, host := range s.Locations {
		run(address, host)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		c.Nodes = append(c.Nodes, node)
	}
	for address := range s.Unlocated {
		run(address, "unknown")
	}
	c.Blocks = append(c.Blocks, block)
	return c
}

// disturb the State: pods come, go and move, users edit and delete AddressSlices.
func disturb(s *State, dice *rand.Rand) {
	for range dice.IntN(60) {
		a := address(dice.IntN(300))
		delete(s.Locations, a)
		delete(s.Unlocated, a)
		switch dice.IntN(5) {
		case 0, 1, 2:
			s.Locations[a] = fmt.Sprintf("192.0.2.%d", dice.IntN(3))
		case 3:
			s.Unlocated[a] = true
		}
	}
	if len(s.Slices) == 0 {
		return
	}
	is := s.Slices[dice.IntN(len(s.Slices))]
	switch dice.IntN(8) {
	case 0:
		s.Slices = deleted(s.Slices, is.Name)
	case 1:
		is.Spec.Overlay = nil
	case 2:
		is.Spec.Overlay = overlay(s.Network)
	case 3:
		is.Labels, is.Spec.Locations = nil, nil
	case 4:
		is.OwnerReferences[0].UID = "former"
	case 5:
		if len(is.Spec.Locations) < full {
			is.Spec.Locations = map[string]string{address(dice.IntN(300)): "192.0.2.9"}
		}
	case 6:
		s.Network.Status.VNI++
	}
}

// From each state, the writes of one plan end the work, and a plan changes none of its input. If
// there are slices of a former Network, the first plan only deletes those.
func TestOnePlanEndsTheWork(t *testing.T) {
	chance.ForSeeds(t, 500, func(t *testing.T, dice *rand.Rand) {
		s := blue(0)
		s.Unlocated = map[string]bool{}
		for range 8 {
			disturb(&s, dice)
			before := copied(s)
			p := Diff(s)
			if !reflect.DeepEqual(before, copied(s)) {
				t.Fatalf("the plan changed its input:\n%s", p)
			}
			if why := spec.AddressSlicesDone(objects(s), s.Network); p.Empty() != (why == "") {
				t.Fatalf("the plan is\n%s\nand the remaining work is: %s", p, why)
			}
			former := slices.ContainsFunc(s.Slices, func(x *v1.AddressSlice) bool { return !s.made(x) })
			if carry(&s, p); former {
				carry(&s, Diff(s))
			}
			if why := spec.AddressSlicesDone(objects(s), s.Network); why != "" || !Diff(s).Empty() {
				t.Fatalf("after the writes of\n%s\nremains: %s\nand\n%s", p, why, Diff(s))
			}
		}
	})
}

func copied(s State) State {
	s.Network = s.Network.DeepCopy()
	var all []*v1.AddressSlice
	for _, slice := range s.Slices {
		all = append(all, slice.DeepCopy())
	}
	s.Slices = all
	return s
}

// A pod that starts, moves or ends costs one write.
func TestOnePodCostsOneWrite(t *testing.T) {
	chance.ForSeeds(t, 300, func(t *testing.T, dice *rand.Rand) {
		s := blue(0)
		s.Unlocated = map[string]bool{}
		for range 200 {
			if a := address(dice.IntN(300)); dice.IntN(2) == 0 {
				s.Locations[a] = fmt.Sprintf("192.0.2.%d", dice.IntN(3))
			} else {
				delete(s.Locations, a)
			}
			p := Diff(s)
			if writes := len(p.Create) + len(p.Update) + len(p.Delete); writes > 1 {
				t.Fatalf("%d writes:\n%s", writes, p)
			}
			carry(&s, p)
		}
	})
}
