//go:build linux && kernel

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"
)

// Everything that is removed on the node wakes the agent. So do files that CNI writes, even
// in a new directory. Things of other programs do not.
func TestWatch(t *testing.T) {
	c, _, _ := twoByTwo(t)
	n := c.nodes[0]
	results := filepath.Join(t.TempDir(), "multus", "results")
	rings := make(chan bool, 1000)
	must(t, n.kernel.Watch(t.Context(), []string{results}, func() { rings <- true }))
	link := func(name string) netlink.Link {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Error(err)
		}
		return l
	}
	del := func(dev string, family int) error {
		list, err := netlink.NeighList(link(dev).Attrs().Index, family)
		for _, e := range list {
			if family == unix.AF_INET || e.IP != nil {
				err = errors.Join(err, netlink.NeighDel(&e))
			}
		}
		return err
	}
	for _, tt := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"a link of another program", func() error {
			return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "others"}})
		}, false},
		{"an nft table of another program", dropInvalid, false},
		{"an entry of the VXLAN device is gone", func() error { return del("vx1001", unix.AF_BRIDGE) }, true},
		{"a neighbour is gone", func() error { return del("nw1001", unix.AF_INET) }, true},
		{"a port is new", func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "new", MasterIndex: link("nw1001").Attrs().Index}, PeerName: "new2"})
		}, true},
		{"a link is down", func() error { return netlink.LinkSetDown(link("rt1001")) }, true},
		{"a table is gone", func() error {
			conn, err := nftables.New()
			if err != nil {
				return err
			}
			conn.DelTable(&nftables.Table{Family: nftables.TableFamilyBridge, Name: "pod2"})
			return conn.Flush()
		}, true},
		{"the directory of results is new", func() error { return os.MkdirAll(results, 0o755) }, true},
		{"a result", func() error { return os.WriteFile(filepath.Join(results, "x"), nil, 0o600) }, true},
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
			c.in("node1", func() { err = tt.do() })
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
