package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

// One pod waits on a Network with many other pods. First everything is read again. Then
// the AddressBlocks are Known, so the pods that settle them are left out.
func BenchmarkDiff(b *testing.B) {
	for _, size := range []int{10, 1_000, 10_000, 65_000} {
		s := crowded(b, size)
		for _, bm := range []struct {
			name  string
			state State
		}{{"anew", s}, {"known", known(s)}} {
			b.Run(fmt.Sprintf("%s/bound=%d", bm.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if p := Diff(bm.state); len(p.Blocks) != 1 {
						b.Fatalf("got %d block writes, want 1", len(p.Blocks))
					}
				}
			})
		}
	}
}

// known is the State without the pods that settle an entry.
func known(s State) State {
	s.Known = map[*v1.AddressBlock]*Known{}
	pods := map[string]*corev1.Pod{}
	for _, pod := range s.Pods {
		pods[pod.Name] = pod
	}
	for _, block := range s.Blocks {
		page, _ := Read(block)
		s.Known[block] = &Known{Page: page}
		for i := range page.Size() {
			name := page.PodName(i)
			if bits, ok := page.Settles(i, pods[name]); ok {
				s.Known[block].Settle(i, bits)
				delete(pods, name)
			}
		}
	}
	s.Pods = slices.Collect(maps.Values(pods))
	return s
}

func crowded(tb testing.TB, size int) State {
	s := parse(tb, "network blue 10.0.0.0/8\npod waiting/u gated asks=blue")
	waiting := s.Pods[0]
	addr := netip.MustParseAddr("10.0.0.2")
	s.Pods = nil
	for i := range size {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%05d", i), UID: types.UID(fmt.Sprintf("uid-%05d", i))}}
		pod.Annotations = map[string]string{v1.NetworksAnnotation: "blue", v1.AddressesAnnotation: attachment.FormatAddresses(map[string]attachment.Address{
			"blue": {Address: netip.PrefixFrom(addr, 8), Gateway: netip.MustParseAddr("10.0.0.1"), MAC: ipam.MAC(addr)},
		})}
		s.Pods = append(s.Pods, pod)
		if block := ipam.Block(addr); len(s.Blocks) == 0 || s.Blocks[len(s.Blocks)-1].Spec.CIDR != block.String() {
			s.Blocks = append(s.Blocks, parseBlock(tb, Neighbour{Name: "blue"}, []string{block.String()}))
		}
		last := s.Blocks[len(s.Blocks)-1]
		last.Spec.Entries = append(last.Spec.Entries, v1.AddressEntry{Address: addr.String(), Pod: pod.Name, PodUID: pod.UID, State: v1.AddressBound, Since: metav1.NewTime(now)})
		addr = addr.Next()
	}
	s.Pods = append(s.Pods, waiting)
	return s
}
