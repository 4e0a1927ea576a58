//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// perSlice is the number of addresses that the controller puts into an AddressSlice.
const perSlice = 50

// written are the AddressSlices that this program writes in place of the controller.
type written struct {
	sync.Mutex
	slices map[string]*samplecrdv1.AddressSlice
}

// locate sets the host of an address in an AddressSlice of a Network, or of nodes if that is "".
func (b *bench) locate(ctx context.Context, name, network string, address, host netip.Addr) {
	b.write(ctx, name, network, func(s *samplecrdv1.AddressSlice) { s.Spec.Locations[address.String()] = host.String() })
}

// describe sets the properties of a Network.
func (b *bench) describe(ctx context.Context, n dataplane.Network) {
	b.write(ctx, n.Name+"-0", n.Name, func(s *samplecrdv1.AddressSlice) {
		s.Spec.Overlay = &samplecrdv1.OverlayProperties{VNI: n.VNI, CIDR: n.CIDR.String(), Gateway: n.Gateway.String(), Egress: samplecrdv1.EgressNAT}
	})
}

func (b *bench) write(ctx context.Context, name, network string, change func(*samplecrdv1.AddressSlice)) {
	b.written.Lock()
	defer b.written.Unlock()
	s := b.written.slices[name]
	if s == nil {
		labels := map[string]string{samplecrdv1.NetworkLabel: network}
		if network == "" {
			labels = map[string]string{samplecrdv1.NodesLabel: "true"}
		}
		s = &samplecrdv1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	if s.Spec.Locations == nil {
		s.Spec.Locations = map[string]string{}
	}
	change(s)
	if client := b.Sample.SamplecrdV1().AddressSlices(space); s.UID == "" {
		b.written.slices[name] = measure.Must(client.Create(ctx, s, metav1.CreateOptions{}))
	} else {
		b.written.slices[name] = measure.Must(client.Update(ctx, s, metav1.UpdateOptions{}))
	}
}

// farSlice is the name of the AddressSlice with the i-th pod of another node.
func farSlice(i int) string { return fmt.Sprint(big.Name, "-", 1+i/perSlice) }
