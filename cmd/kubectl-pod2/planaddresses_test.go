package main

import (
	"testing"

	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

// Before a migration, the text says that replicas keep the addresses of the StatefulSet's
// pods. For a Network that is nearly full, it gives the number of available addresses.
func TestAddressText(t *testing.T) {
	n := newNetwork("blue", "10.0.0.0/29")
	n.Status.ObservedGeneration, n.Status.Available = 1, 1
	b := block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.2=Bound:web-0")
	b.Spec.Entries[0].Owner.Kind = "StatefulSet"
	p := web(func(p *v1.Pod2) {
		p.Spec.Replicas, p.Spec.Networks = ptr.To[int32](3), []v1.Pod2Network{{Name: "blue"}}
	})
	requireText(t, addressText(pod2.State{Pod2: p, Networks: []*v1.Network{n}}, []*v1.AddressBlock{b}), `
Addresses of the replicas:
  1 address is kept if the pods of StatefulSet web are adopted
  2 replicas get any free address on blue, which has 1 available
`)
}
