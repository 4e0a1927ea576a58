//go:build linux && kernel

package bpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
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
			return p.AttachPort(int(index))
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

// ports are interfaces 10, 11 and so on, with these qdiscs of other programs; "" is none.
func ports(kinds ...string) error {
	for i, kind := range kinds {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("port", 10+i), Index: 10 + i}}); err != nil {
			return err
		}
		qdisc := netlink.QdiscAttrs{LinkIndex: 10 + i, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
		if kind == "" {
			continue
		}
		if err := netlink.QdiscAdd(&netlink.GenericQdisc{QdiscAttrs: qdisc, QdiscType: kind}); err != nil {
			return err
		}
	}
	return nil
}

// Of many ports, only those with a qdisc of another program get an error, also if the list of qdiscs is older than theirs.
func TestQdiscsOfManyPorts(t *testing.T) {
	p, err := Load(bpffs(t))
	must(t, err)
	defer p.Close()
	var named []string
	must(t, in(newNamespace(t), func() error {
		if err := ports("", "clsact", "ingress", "", "clsact"); err != nil {
			return err
		}
		old := qdiscs{11: "clsact"}
		for index := 10; index < 15; index++ {
			if err := p.attach(old, index, "from_port", "to_port"); err != nil {
				_, text, _ := strings.Cut(err.Error(), "qdisc is on ")
				named = append(named, text[:6])
			}
		}
		return nil
	}))
	if got := fmt.Sprint(named); got != "[port12]" {
		t.Errorf("got %s", got)
	}
}

// A port that takes no programs does not keep the next one from its programs.
func TestAttachPortsGoesOn(t *testing.T) {
	p, err := Load(bpffs(t))
	must(t, err)
	defer p.Close()
	must(t, in(newNamespace(t), func() error {
		if err := ports("ingress", ""); err != nil {
			return err
		}
		errs := p.AttachPorts([]int{10, 11})
		link, err := netlink.LinkByIndex(11)
		if err != nil {
			return err
		}
		filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_EGRESS)
		if len(errs) != 1 || len(filters) != 1 {
			t.Errorf("errors %v, filters of the second port %v", errs, filters)
		}
		return err
	}))
}

// The agent's programs come first on a wire, where the kernel can do that: before those that others have put there
// since, and in the place of those of an agent before. A program that is in place stays.
func TestAttachFirst(t *testing.T) {
	var programs [2]*Programs
	for i := range programs {
		var err error
		programs[i], err = Load(bpffs(t))
		must(t, err)
		t.Cleanup(programs[i].Close)
	}
	ns := newNamespace(t)
	var index int
	must(t, in(ns, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "other"}); err != nil {
			return err
		}
		i, err := indexOf("eth0")
		index = int(i)
		return err
	}))
	type step struct {
		name string
		do   func() error
		want string
	}
	steps := []step{
		{"attached", func() error { return programs[0].AttachWire(index) }, "clsact from_wire"},
		{"detached", func() error { _, err := Detach(index); return err }, ""},
	}
	if isLinux(t, 6, 6) {
		steps = []step{
			{"filters of an earlier agent", func() error { return programs[0].attach(qdiscs{}, index, "from_wire", "to_wire") }, "clsact from_wire"},
			{"attached", func() error { return programs[0].AttachWire(index) }, "tcx from_wire 0"},
			{"again", func() error { return programs[0].AttachWire(index) }, "tcx from_wire 0"},
			{"by the next agent", func() error { return programs[1].AttachWire(index) }, "tcx from_wire 1"},
			{"behind another", func() error { return attachHead(t, index) }, "tcx other, tcx from_wire 1"},
			{"before it again", func() error { return programs[1].AttachWire(index) }, "tcx from_wire 1, tcx other"},
			{"beside an earlier agent", func() error { return attachAtHead(index, programs[0].collection.Programs["from_wire"]) }, "tcx from_wire 0, tcx from_wire 1, tcx other"},
			{"in its place", func() error { return programs[1].AttachWire(index) }, "tcx from_wire 1, tcx other"},
			{"detached", func() error { _, err := Detach(index); return err }, "tcx other"},
		}
	}
	for _, s := range steps {
		must(t, in(ns, s.do))
		var got string
		must(t, in(ns, func() (err error) { got, err = ingress(index, programs); return err }))
		if got != s.want {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
	}
}

func attachHead(t *testing.T, index int) error {
	return attachAtHead(index, newProgram(t, asm.Mov.Imm(asm.R0, next), asm.Return()))
}

func attachAtHead(index int, program *ebpf.Program) error {
	return link.RawAttachProgram(link.RawAttachProgramOptions{Target: index, Program: program, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
}

// ingress lists the programs for packets that arrive, in their order, with the number of the Programs that have them.
func ingress(index int, programs [2]*Programs) (string, error) {
	var list []string
	all, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXIngress})
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return "", err
	}
	for i := 0; err == nil && i < len(all.Programs); i++ {
		one := "tcx other"
		for n, p := range programs {
			info, err := p.collection.Programs["from_wire"].Info()
			if err != nil {
				return "", err
			}
			if id, _ := info.ID(); id == all.Programs[i].ID {
				one = fmt.Sprint("tcx from_wire ", n)
			}
		}
		list = append(list, one)
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return "", err
	}
	filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_INGRESS)
	for _, f := range filters {
		list = append(list, "clsact "+f.(*netlink.BpfFilter).Name)
	}
	return strings.Join(list, ", "), err
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
