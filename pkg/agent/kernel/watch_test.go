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
	l, blue, _ := ipv4.twoNetworks(t)
	rings := make(chan bool, 1000)
	must(t, l.kernel.Watch(t.Context(), func() { rings <- true }))
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
		{"a router's link is down", func() error { return netlink.LinkSetDown(l.link("rt1001")) }, true},
		{"a router's link is gone", func() error { return netlink.LinkDel(l.link("wn1002")) }, true},
		{"a pod's interface is new", func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: cni.ID{ContainerID: "new", Interface: "net1"}.HostInterface()}, PeerName: "new"})
		}, true},
		{"a pod's interface is gone", func() error { return netlink.LinkDel(l.link(blue.port)) }, true},
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
			var err error
			l.in("node1", func() { err = tt.do() })
			must(t, err)
			wait := silence
			if tt.want {
				wait = patience
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
