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
	n.Generation, n.Status.ObservedGeneration, n.Status.Available = 1, 1, 1
	b := block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.2=Bound:web-0")
	b.Spec.Entries[0].Owner.Kind = "StatefulSet"
	p := web(func(p *v1.Pod2) {
		p.Spec.Replicas, p.Spec.Networks = ptr.To[int32](3), []v1.Pod2Network{{Name: "blue"}}
	})
	requireText(t, addressText(pod2.State{Pod2: p, Networks: []*v1.Network{n}}, []*v1.AddressBlock{b}, takes{}), `
Addresses of the replicas:
  1 address is kept if the pods of StatefulSet web are adopted
  2 replicas get any free address on blue, which has 1 available
`)
}

// The text counts the available addresses of each Network, also before the controller has observed it.
func TestAvailableForReplicas(t *testing.T) {
	small := newNetwork("blue", "10.0.0.0/29") // the gateway, 3 addresses, and 2 on request
	small.Generation, small.Spec.OnRequest = 1, []v1.AddressRange{"10.0.0.5-10.0.0.6"}
	grown := small.DeepCopy()
	grown.Generation, grown.Status.ObservedGeneration, grown.Status.Available, grown.Status.Gateway = 2, 1, 1, "10.0.0.1"
	wrong := newNetwork("blue", "10.0.0.1/29")
	b := block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.2=Resting:job-x", "10.0.0.5=Bound:job-y", "10.0.0.77=Bound:job-z")
	for _, row := range []struct {
		name      string
		n         *v1.Network
		addresses []v1.Address
		earlier   int64
		want      string
	}{
		{"missing", nil, nil, 0, "4 replicas get any free address on blue, which does not exist"},
		{"in the same file", small, nil, 0, "4 replicas get any free address on blue, which has 2 available"},
		{"with a new spec", grown, nil, 0, "4 replicas get any free address on blue, which has 2 available"},
		{"beside requests", small, []v1.Address{"10.0.0.3"}, 0, "web-0 asks for 10.0.0.3 on blue\n  3 replicas get any free address on blue, which has 1 available"},
		{"beside a request for one that others do not get", small, []v1.Address{"10.0.0.6"}, 0, "web-0 asks for 10.0.0.6 on blue\n  3 replicas get any free address on blue, which has 2 available"},
		{"after another Pod2", small, nil, 4, "4 replicas get any free address on blue, which has 0 available"},
		{"wrong", wrong, nil, 0, "4 replicas get any free address on blue"},
	} {
		p := web(func(p *v1.Pod2) {
			p.Spec.Replicas, p.Spec.Networks = ptr.To[int32](4), []v1.Pod2Network{{Name: "blue", Addresses: row.addresses}}
		})
		s, earlier := pod2.State{Pod2: p}, takes{{"default", "blue"}: row.earlier, {"other", "blue"}: 9}
		if row.n != nil {
			s.Networks = []*v1.Network{row.n}
		}
		t.Run(row.name, func(t *testing.T) {
			requireText(t, addressText(s, []*v1.AddressBlock{b}, earlier), "Addresses of the replicas:\n  "+row.want+"\n")
			want := row.earlier + 4
			if len(row.addresses) > 0 && row.addresses[0] == "10.0.0.6" {
				want--
			}
			if got := earlier[[2]string{"default", "blue"}]; got != want {
				t.Errorf("the next Pod2 counts %d addresses as taken", got)
			}
		})
	}
}
