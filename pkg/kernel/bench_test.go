//go:build linux && kernel

package kernel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/dataplane"
	"github.com/pod2/pod2/pkg/ipam"
)

// BenchmarkRemotePods is what so many pods of other nodes cost: to have them programmed
// on a node that had none, and to find that nothing is to be done.
func BenchmarkRemotePods(b *testing.B) {
	for _, many := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			var read, decide, apply, resync, reads time.Duration
			for range b.N {
				c := newCluster(b, 1)
				n := c.nodes[0]
				blue := c.network("blue", 1001, "192.0.0.0/8")
				n.attach(n.pod("a", blue, "192.0.0.2"))
				n.sync()
				c.state.Nodes = append(c.state.Nodes, dataplane.Node{Name: "far", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.9")}})
				for i := range many {
					ip := netip.AddrFrom4([4]byte{192, 1, byte(i >> 8), byte(i)})
					mac, err := dataplane.ParseMAC(ipam.MAC(ip))
					must(b, err)
					c.state.Pods = append(c.state.Pods, dataplane.Pod{Namespace: "default", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Node: "far",
						Attachments: []dataplane.Attachment{{Network: "blue", IP: ip, MAC: mac}}})
				}
				s := c.state
				s.Node, s.Ports = n.name, n.ports
				lap := time.Now()
				since := func() time.Duration { d := time.Since(lap); lap = time.Now(); return d }
				round := func() dataplane.Plan {
					var err error
					s.Host, err = n.kernel.Read()
					must(b, err)
					read += since()
					want, _, _ := dataplane.Want(s)
					plan := dataplane.Diff(s.Host, want)
					decide += since()
					return plan
				}
				plan := round()
				if _, err := n.kernel.Apply(plan); err != nil {
					b.Fatal(err)
				}
				apply += since()
				read, decide = 0, 0
				if plan = round(); len(plan) > 0 {
					b.Fatalf("%d steps are left", len(plan))
				}
				resync, reads = resync+read+decide, reads+read
			}
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
			b.ReportMetric(ms(apply), "apply-ms")
			b.ReportMetric(ms(resync), "resync-ms")
			b.ReportMetric(ms(reads), "resync-read-ms")
		})
	}
}
