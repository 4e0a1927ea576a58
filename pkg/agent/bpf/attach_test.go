//go:build linux && kernel

package bpf

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// An ingress qdisc of another program is an error that says how to continue. With clsact, the programs share
// the interface.
func TestAttachBesideQdisc(t *testing.T) {
	for _, tt := range []struct{ kind, want string }{
		{"clsact", ""},
		{"ingress", "another program's ingress qdisc is on eth0: let that program use clsact, or remove it with: tc qdisc del dev eth0 ingress"},
	} {
		p, err := Load(bpffs(t))
		must(t, err)
		err = in(newNamespace(t), func() error {
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "other"}); err != nil {
				return err
			}
			index, err := indexOf("eth0")
			if err != nil {
				return err
			}
			qdisc := netlink.QdiscAttrs{LinkIndex: int(index), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
			if err := netlink.QdiscAdd(&netlink.GenericQdisc{QdiscAttrs: qdisc, QdiscType: tt.kind}); err != nil {
				return err
			}
			return p.AttachWire(int(index))
		})
		if got := ""; err != nil {
			if got = err.Error(); !strings.HasSuffix(got, tt.want) || tt.want == "" {
				t.Errorf("%s: %s", tt.kind, got)
			}
		} else if tt.want != "" {
			t.Errorf("%s: no error", tt.kind)
		}
		p.Close()
	}
}
