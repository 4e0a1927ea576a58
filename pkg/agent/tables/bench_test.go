package tables

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

const (
	standing = 50_000
	perSlice = 50
)

// full are the slices of 50,000 pods on two nodes.
func full() []dataplane.Slice {
	all := make([]dataplane.Slice, standing/perSlice)
	for i := range all {
		s := dataplane.Slice{Namespace: "default", Network: "blue", Name: fmt.Sprint("blue-", 1+i)}
		for j := range perSlice {
			address := 2 + i*perSlice + j
			s.Locations = append(s.Locations, dataplane.Location{Address: netip.AddrFrom4([4]byte{10, 1, byte(address >> 8), byte(address)}), Host: netip.AddrFrom4([4]byte{10, 0, 0, 2})})
		}
		all[i] = s
	}
	return all
}

// joined is a node with the Network and one port of its own.
func joined(all []dataplane.Slice) *Desired {
	d := New()
	d.SetNode([]netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1})})
	blue := &dataplane.Network{Namespace: "default", Name: "blue", VNI: 1001, CIDR: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("10.0.0.1"), MTU: 1450}
	d.SetSlice(dataplane.Slice{Namespace: "default", Network: "blue", Name: "blue-0", Overlay: blue})
	d.SetPort(LocalPort{Interface: 7, Pod: "u-0", Namespace: "default", Network: "blue"})
	for _, s := range all {
		d.SetSlice(s)
	}
	return d
}

// BenchmarkMove: one of 50,000 pods is on another node than before.
func BenchmarkMove(b *testing.B) {
	all := full()
	d := joined(all)
	for i := 0; b.Loop(); i++ {
		s := &all[i%len(all)]
		s.Locations = slices.Clone(s.Locations)
		s.Locations[i%perSlice].Host = netip.AddrFrom4([4]byte{10, 0, 1, byte(i / len(all))})
		if changes := d.SetSlice(*s); len(changes) != 1 {
			b.Fatal(render(changes))
		}
	}
}

// BenchmarkBuild: the slices of 50,000 pods come one by one.
func BenchmarkBuild(b *testing.B) {
	all := full()
	for b.Loop() {
		if n := len(joined(all).is.Places); n != standing {
			b.Fatal(n)
		}
	}
}

// BenchmarkJoin: the last port of a Network that 50,000 pods are on is removed, and comes back.
func BenchmarkJoin(b *testing.B) {
	d := joined(full())
	for b.Loop() {
		if changes := d.DeletePort(7); len(changes) != standing+1 {
			b.Fatal(len(changes))
		}
		if changes := d.SetPort(LocalPort{Interface: 7, Pod: "u-0", Namespace: "default", Network: "blue"}); len(changes) != standing+1 {
			b.Fatal(len(changes))
		}
	}
}

// BenchmarkDiff compares maps of 50,000 places that need no change.
func BenchmarkDiff(b *testing.B) {
	d := joined(full())
	is, want := d.Tables(), d.Tables()
	for b.Loop() {
		if changes := Diff(is, want); len(changes) > 0 {
			b.Fatal(render(changes))
		}
	}
}

// BenchmarkFill compares empty maps with 50,000 places.
func BenchmarkFill(b *testing.B) {
	want := joined(full()).Tables()
	for b.Loop() {
		if changes := Diff(Empty(), want); len(changes) != standing+1 {
			b.Fatal(len(changes))
		}
	}
}
