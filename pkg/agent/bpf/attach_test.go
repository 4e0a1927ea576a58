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

// MakeVXLAN keeps its device, and replaces any other interface with its name.
func TestMakeVXLAN(t *testing.T) {
	own := &netlink.Vxlan{FlowBased: true, Port: 4789, UDP6ZeroCSumRx: true}
	for _, tt := range []struct {
		name string
		is   netlink.Link
		kept bool
	}{
		{"its device", own, true},
		{"another kind", &netlink.Veth{PeerName: "other"}, false},
		{"one VNI", &netlink.Vxlan{VxlanId: 7, Port: 4789, UDP6ZeroCSumRx: true}, false},
		{"another port", &netlink.Vxlan{FlowBased: true, Port: 8472, UDP6ZeroCSumRx: true}, false},
		{"IPv6 without checksums", &netlink.Vxlan{FlowBased: true, Port: 4789}, false},
	} {
		must(t, in(newNamespace(t), func() error {
			tt.is.Attrs().Name = "pod2vxlan"
			if err := netlink.LinkAdd(tt.is); err != nil {
				return err
			}
			before, err := indexOf("pod2vxlan")
			if err != nil {
				return err
			}
			index, err := MakeVXLAN("pod2vxlan", 4789)
			if err != nil {
				return err
			}
			made, err := netlink.LinkByName("pod2vxlan")
			if err != nil {
				return err
			}
			if is, ok := made.(*netlink.Vxlan); !ok || is.Index != index || !is.FlowBased || is.Port != 4789 || (uint32(index) == before) != tt.kept {
				t.Errorf("%s: made %+v with index %d, before %d", tt.name, made, index, before)
			}
			return nil
		}))
	}
}

// Two VXLAN devices cannot share a port if one has tunnel keys. So MakeVXLAN makes none beside another, which may
// be the network of the cluster, even if that one is down.
func TestPortOfAnotherVXLAN(t *testing.T) {
	must(t, in(newNamespace(t), func() error {
		if err := netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vxlan.calico"}, VxlanId: 4096, Port: 4789}); err != nil {
			return err
		}
		_, err := MakeVXLAN("pod2vxlan", 4789)
		if want := "the VXLAN device vxlan.calico has UDP port 4789, which only one of both can use: set another --vxlan-port on all agents"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		_, err = MakeVXLAN("pod2vxlan", 4790)
		return err
	}))
}
