//go:build linux && kernel

package node

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

// Things that a user with root breaks work again after a full sync. It reports how many
// entries differed.
func TestRepair(t *testing.T) { eachFamily(t, repair) }

func repair(t *testing.T, f family) {
	l, blue, _ := f.twoByTwo(t)
	beside := l.nodes[0].pod("beside", blue[0].network, f.pod(9).String())
	l.attach(beside)
	l.echo("world", "world")
	n := l.nodes[0]
	maps, err := bpf.Load(n.bpf)
	must(t, err)
	defer maps.Close()
	other, mine := tables.PlaceKey{VNI: blueVNI, MAC: blue[1].mac}, uint32(blue[0].link().Attrs().Index)
	device := func(name string, do func(netlink.Link) error) func() error {
		return func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			return do(link)
		}
	}
	port, place := tables.Key{Map: tables.PortMap, Port: mine}, tables.Key{Map: tables.PlaceMap, Place: other}
	network, node := tables.Key{Map: tables.NetworkMap, VNI: blueVNI}, tables.Key{Map: tables.NodeMap, Address: l.nodes[1].address}
	transit := tables.Key{Map: tables.TransitMap, Address: blue[0].transit()}
	set := func(k tables.Key, value any) func() error {
		return func() error { return maps.Write(tables.Change{Key: k, Value: value}) }
	}
	remove := func(keys ...tables.Key) func() error {
		return func() (err error) {
			for _, k := range keys {
				err = errors.Join(err, maps.Write(tables.Change{Key: k}))
			}
			return err
		}
	}
	elsewhere := tables.AddressOf(addr("10.9.0.99"))
	for _, tt := range []struct {
		name    string
		harm    func() error
		changes int
	}{
		{"programs of a pod's port", device(blue[0].attachment().HostInterface(), removePrograms), 0},
		{"clsact of a pod's port", device(blue[0].attachment().HostInterface(), removeQdisc), 0},
		{"programs of pod2gw", device("pod2gw", removePrograms), 0},
		{"programs of pod2gwp", device("pod2gwp", removePrograms), 0},
		{"pod2gw", device("pod2gw", netlink.LinkDel), 0},
		{"pod2gwp down", device("pod2gwp", netlink.LinkSetDown), 0},
		{"the route to pods", func() error { return removeRoute(f.transit) }, 0},
		{"the nft table", removeTable, 0},
		{"programs of the wire", device("eth0", removePrograms), 0},
		{"programs of the VXLAN device", device(VXLANName, removePrograms), 0},
		{"the VXLAN device", device(VXLANName, netlink.LinkDel), 0},
		{"the VXLAN device down", device(VXLANName, netlink.LinkSetDown), 0},
		{"a port", remove(port), 1},
		{"a port of another", set(port, tables.Port{VNI: greenVNI, MAC: blue[0].mac, IP: tables.AddressOf(blue[0].ip)}), 1},
		{"a port too many", set(tables.Key{Map: tables.PortMap, Port: 9999}, tables.Port{VNI: blueVNI}), 1},
		{"a place", remove(place), 1},
		{"a place elsewhere", set(place, tables.Place{IP: tables.AddressOf(blue[1].ip), Node: elsewhere}), 1},
		{"a place too many", set(tables.Key{Map: tables.PlaceMap, Place: tables.PlaceKey{VNI: blueVNI, MAC: dataplane.MAC{0x0a, 0x58, 9}}}, tables.Place{Node: elsewhere}), 1},
		{"a Network", remove(network), 1},
		{"MTU of a Network", set(network, tables.Network{MTU: 60}), 1},
		{"a transit address", remove(transit), 1},
		{"a transit address of another", set(transit, tables.PortKey(9999)), 1},
		{"a node", remove(node), 1},
		{"a node's interface", set(node, tables.Wire{Interface: 9999}), 1},
		{"a node too many", set(tables.Key{Map: tables.NodeMap, Address: addr("10.9.0.100")}, tables.Wire{}), 1},
		{"all at once", remove(port, place, network, node), 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l.in(n.name, tt.harm)
			if _, changes := n.step(true); changes != tt.changes {
				t.Errorf("%d entries differed, want %d", changes, tt.changes)
			}
			if _, changes := n.step(true); changes != 0 {
				t.Errorf("%d entries differ still", changes)
			}
			blue[0].reaches(blue[1].ip, "blue2")
			blue[1].reaches(blue[0].ip, "blue1")
			blue[0].reaches(beside.ip, "beside")
			blue[0].reaches(f.world(), "world")
			if f.cidr.Addr().Is6() {
				return
			}
			n.complete()
		})
	}
}

// complete expects programs on all interfaces that need them.
func (n *labNode) complete() {
	n.Helper()
	n.in(n.name, func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			want := 0
			switch name := l.Attrs().Name; {
			case name == VXLANName, name == "lo", name == "pod2gw":
				want = 1
			case name == "eth0", len(name) > 3 && name[:3] == "pod":
				want = 2
			}
			got := 0
			for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
				filters, err := netlink.FilterList(l, parent)
				if err != nil {
					return err
				}
				got += len(filters)
			}
			for _, direction := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				if all, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: direction}); err == nil {
					got += len(all.Programs)
				} else if !errors.Is(err, unix.EINVAL) { // a kernel without tcx
					return err
				}
			}
			if got != want {
				n.Errorf("%s has %d programs, want %d", l.Attrs().Name, got, want)
			}
		}
		return nil
	})
}

func removeQdisc(link netlink.Link) error {
	return netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
}

// An event that cannot be written makes the node unready and asks for a sync, which writes it.
func TestEntryCannotBeWritten(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	n.wokenBefore()
	n.node.Close() // of the programs: each write fails from now on
	young := l.nodes[1].pod("young", blue[0].network, "192.168.0.9")
	n.tellPod(young)
	if n.node.Ready() == nil || !n.wasWoken() {
		t.Error("the agent does not know that it is behind")
	}
	if err := n.node.Status(t.Context()); err == nil {
		t.Error("Status is well")
	}
	programs, err := bpf.Load(n.bpf)
	must(t, err)
	n.node.programs = programs
	n.step(false) // compares all, without being asked
	must(t, n.node.Ready())
	l.nodes[1].tellPod(young)
	young.attach()
	blue[0].reaches(young.ip, "young")
}

// A node gets another address, and one leaves.
func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	here, there := l.nodes[0], l.nodes[1]
	l.give("node2", "eth0", netip.MustParsePrefix("10.9.0.77/24"))
	l.moveNode("node2", addr("10.9.0.77"))
	for _, n := range l.nodes {
		n.tell()
	}
	there.step(false) // its own address is in the programs' configuration
	blue[0].reaches(blue[1].ip, "blue2")
	before := here.drops("vxlan")
	l.moveNode("node2", netip.Addr{})
	here.tell()
	blue[0].reaches(blue[1].ip, "")
	blue[1].reaches(blue[0].ip, "")
	if here.drops("vxlan") == before {
		t.Error("nothing was counted")
	}
	l.moveNode("node2", addr("10.9.0.77"))
	here.tell()
	blue[0].reaches(blue[1].ip, "blue2")
}

// A node may be known before there is a route to it, or have none.
func TestNodeWithoutRoute(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	l.moveNode("far", addr("10.200.0.1"))
	n.tell()
	must(t, n.node.Ready())
	if _, changes := n.step(true); changes != 0 {
		t.Errorf("%d entries differed", changes)
	}
	blue[0].reaches(blue[1].ip, "blue2")
}

// CleanUp removes the programs from the wire, the device and the maps. Things of others
// stay, and an agent that starts again continues. A directory replaces the pinned program, because not each kernel takes that.
func TestCleanUp(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	n.stop()
	layouts, err := filepath.Glob(filepath.Join(n.bpf, "v*"))
	must(t, err)
	must(t, os.Mkdir(filepath.Join(layouts[0], "no_bypass"), 0o700))
	var out strings.Builder
	n.in(n.name, func() error { return CleanUp(n.bpf, &out) })
	lines := slices.Sorted(strings.Lines(out.String()))
	want := []string{"remove the VXLAN device pod2vxlan\n", "remove the program no_bypass\n", "remove the programs from eth0\n", "remove the programs from lo\n", "remove the tables in " + layouts[0] + "\n"}
	if !slices.Equal(lines, want) {
		t.Errorf("it prints\n%s", out.String())
	}
	if n.link(VXLANName) != nil {
		t.Error("the VXLAN device is left")
	}
	n.in(n.name, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		left, err := bpf.Detach(link.Attrs().Index)
		if left {
			t.Error("eth0 has programs")
		}
		return err
	})
	blue[0].reaches(blue[1].ip, "")
	n.start()
	n.sync()
	blue[0].reaches(blue[1].ip, "blue2")
}

// A port whose programs cannot be attached stays down: another program replaced its qdisc.
func TestPortWithoutProgramsStaysDown(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	pods[0].attach()
	link := pods[0].link()
	n.in(n.name, func() error {
		ingress := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
		return errors.Join(removeQdisc(link), netlink.QdiscAdd(ingress), netlink.LinkSetDown(link))
	})
	if err := in(n.namespaces[n.name], func() error { _, _, err := n.node.Sync(true); return err }); err == nil {
		t.Error("no error")
	}
	if pods[0].link().Attrs().Flags&net.FlagUp != 0 {
		t.Error("it is up")
	}
}
