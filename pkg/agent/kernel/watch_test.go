//go:build linux && kernel

package kernel

import (
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/cni"
)

// The agent wakes if its links, pods' interfaces or its tables change. Things of other
// programs do not wake it.
func TestWatch(t *testing.T) {
	n := newNode(t)
	n.apply(t)
	pod := cni.ID{ContainerID: "a", Interface: "net1"}.HostInterface()
	n.in(t, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: pod}, PeerName: "inner"})
	})
	rings := make(chan bool, 1000)
	n.in(t, func() error { return Watch(t.Context(), func() { rings <- true }) })
	for _, tt := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"a link of another program", func() error {
			return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "others"}})
		}, false},
		{"an nft table of another program", func() error {
			conn, err := nftables.New()
			if err != nil {
				return err
			}
			conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "others"})
			return conn.Flush()
		}, false},
		{"the gateway is down", on("pod2gw", netlink.LinkSetDown), true},
		{"the gateway is gone", on("pod2gwp", netlink.LinkDel), true},
		{"a pod's interface is new", func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: cni.ID{ContainerID: "new", Interface: "net1"}.HostInterface()}, PeerName: "new"})
		}, true},
		{"a pod's interface is gone", on(pod, netlink.LinkDel), true},
		{"a table is gone", func() error {
			conn, err := nftables.New()
			if err != nil {
				return err
			}
			conn.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "pod2"})
			return conn.Flush()
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for quiet := false; !quiet; { // wakes of earlier changes
				select {
				case <-rings:
				case <-time.After(100 * time.Millisecond):
					quiet = true
				}
			}
			n.in(t, tt.do)
			wait := 400 * time.Millisecond
			if tt.want {
				wait = 5 * time.Second
			}
			select {
			case <-rings:
				if !tt.want {
					t.Error("rang")
				}
			case <-time.After(wait):
				if tt.want {
					t.Error("did not wake")
				}
			}
		})
	}
}
