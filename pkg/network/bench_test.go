package network

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

// One pod waits on a Network that so many others are on.
func BenchmarkDiff(b *testing.B) {
	for _, size := range []int{1000, 65_000} {
		b.Run(fmt.Sprintf("bound=%d", size), func(b *testing.B) {
			s := crowded(b, size)
			b.ReportAllocs()
			for b.Loop() {
				if p := Diff(s); len(p.Blocks) != 1 {
					b.Fatalf("one block is to be written, not %d", len(p.Blocks))
				}
			}
		})
	}
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
