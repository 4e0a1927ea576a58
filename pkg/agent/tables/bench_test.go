package tables

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

const standing = 50_000

// elsewhere is a pod of another node.
func elsewhere(i int, node string) dataplane.Pod {
	high, low := byte(i>>8), byte(i)
	return dataplane.Pod{Namespace: "default", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("u-", i)), Node: node, Created: time.Unix(1, 0),
		Attachments: []dataplane.Attachment{{Network: "blue", IP: netip.AddrFrom4([4]byte{10, 1, high, low}), MAC: dataplane.MAC{0x0a, 0x58, 10, 1, high, low}, Bits: 8}}}
}

func pods() []dataplane.Pod {
	var all []dataplane.Pod
	for i := range standing {
		all = append(all, elsewhere(2+i, "n2"))
	}
	return all
}

// joined is a node with the Network and one pod of its own.
func joined() *Desired {
	d := New("n1")
	for i := range 3 {
		d.SetNode(dataplane.Node{Name: fmt.Sprint("n", 1+i), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)})}})
	}
	d.SetNetwork(dataplane.Network{Namespace: "default", Name: "blue", VNI: 1001, CIDR: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("10.0.0.1"), MTU: 1450})
	d.SetPort(LocalPort{Interface: 7, Pod: "u-0", Namespace: "default", Network: "blue"})
	return d
}

// BenchmarkMove: one of 50,000 pods is on another node than before.
func BenchmarkMove(b *testing.B) {
	d, all := joined(), pods()
	for _, p := range all {
		d.SetPod(p)
	}
	nodes := []string{"n3", "n2"}
	for i := 0; b.Loop(); i++ {
		p := all[i%standing]
		p.Node = nodes[i/standing%2]
		if changes := d.SetPod(p); len(changes) != 1 {
			b.Fatal(render(changes))
		}
	}
}

// BenchmarkBuild: 50,000 pods come one by one. It reports the memory that each takes.
func BenchmarkBuild(b *testing.B) {
	all := pods()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var d *Desired
	for b.Loop() {
		d = joined()
		for _, p := range all {
			d.SetPod(p)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/standing, "heap-B/pod")
	if n := len(d.is.Places); n != standing {
		b.Fatal(n)
	}
}

// BenchmarkJoin: the last port of a Network that 50,000 pods are on is removed, and comes back.
func BenchmarkJoin(b *testing.B) {
	d := joined()
	for _, p := range pods() {
		d.SetPod(p)
	}
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
	d := joined()
	for _, p := range pods() {
		d.SetPod(p)
	}
	is, want := d.Tables(), d.Tables()
	for b.Loop() {
		if changes := Diff(is, want); len(changes) > 0 {
			b.Fatal(render(changes))
		}
	}
}
