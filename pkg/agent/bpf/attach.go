//go:build linux

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/iface"
)

// The filters of the agent have this handle and priority on each interface. Programs of others
// with a lower number see packets first. They may keep packets from these filters.
const (
	filterHandle   = 0x706f
	filterPriority = 0x706f
)

// AttachPort to the host's end of the veth of a pod.
func (p *Programs) AttachPort(index int) error {
	return p.attach(qdiscs{}, index, "from_port", "to_port")
}

// AttachPorts does the same for many pods, and returns an error for each port that takes no programs.
func (p *Programs) AttachPorts(indexes []int) (errs []error) {
	all := qdiscs{}
	for _, index := range indexes {
		if err := p.attach(all, index, "from_port", "to_port"); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// AttachWire to an interface that leads to other nodes, before all programs of others if the kernel can. Filters of
// an agent that could not are removed.
func (p *Programs) AttachWire(index int) error {
	first, err := p.attachFirst(index)
	if err != nil {
		return err
	}
	if !first {
		return p.attach(qdiscs{}, index, "from_wire", "to_wire")
	}
	_, err = detachFilters(index)
	return err
}

// AttachVXLAN to the VXLAN device.
func (p *Programs) AttachVXLAN(index int) error {
	return p.attach(qdiscs{}, index, "from_vxlan", "")
}

// AttachGateway to both ends of the pair by which packets leave Networks and come back: that of the node's stack, and
// that of the programs.
func (p *Programs) AttachGateway(node, programs int) error {
	all := qdiscs{}
	return errors.Join(p.attach(all, node, "", "to_gateway"), p.attach(all, programs, "from_gateway", "to_port"))
}

// AttachLoopback to the loopback interface, where VXLAN of our Networks is always forged: with a raw socket, a
// program of the node can send it to the node's own address with another node's as source. It attaches
// to_wire to arriving packets, because a raw socket can skip programs for packets that leave.
func (p *Programs) AttachLoopback() error {
	return p.attach(qdiscs{}, Loopback, "to_wire", "")
}

// Loopback is the index of the interface lo in every network namespace.
const Loopback = 1

// attach the programs for packets from and to the interface; "" attaches none. Programs that are
// attached already are replaced, and no packet passes without one.
func (p *Programs) attach(all qdiscs, index int, from, to string) error {
	if err := all.addClsact(index); err != nil {
		return err
	}
	for _, f := range []struct {
		name   string
		parent uint32
	}{{to, netlink.HANDLE_MIN_EGRESS}, {from, netlink.HANDLE_MIN_INGRESS}} {
		if f.name == "" {
			continue
		}
		filter := &netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: f.parent, Handle: filterHandle, Priority: filterPriority, Protocol: unix.ETH_P_ALL},
			Fd:          p.collection.Programs[f.name].FD(), Name: f.name, DirectAction: true,
		}
		if err := netlink.FilterReplace(filter); err != nil {
			return fmt.Errorf("attach %s to interface %d: %w", f.name, index, err)
		}
	}
	return nil
}

// qdiscs are the kinds of those for packets that arrive, by interface. The kernel lists the qdiscs of all interfaces or
// none, which takes milliseconds on a node with many pods. So one list serves a round of many ports.
type qdiscs map[int]string

// of an interface. A list that lacks the interface is older than its qdisc.
func (q qdiscs) of(index int) (string, error) {
	if kind, listed := q[index]; listed {
		return kind, nil
	}
	all, err := netlink.QdiscList(nil)
	if err != nil {
		return "", fmt.Errorf("list the qdiscs: %w", err)
	}
	for _, one := range all {
		if one.Attrs().Parent == netlink.HANDLE_CLSACT {
			q[one.Attrs().LinkIndex] = one.Type()
		}
	}
	return q[index], nil
}

// addClsact to an interface that has none. A qdisc of the older kind "ingress" takes its place: the kernel then
// accepts a filter for packets that leave, and never runs it.
func (q qdiscs) addClsact(index int) error {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	err := netlink.QdiscAdd(qdisc)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("attach to interface %d: add clsact: %w", index, err)
	}
	kind, err := q.of(index)
	if err != nil {
		return fmt.Errorf("attach to interface %d: %w", index, err)
	}
	if kind == "" || kind == qdisc.Type() { // "": gone meanwhile
		return nil
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("attach to interface %d: find it: %w", index, err)
	}
	return fmt.Errorf("attach to interface %d: another program's %s qdisc is on %s: let that program use clsact, or remove it with: tc qdisc del dev %[3]s ingress", index, kind, link.Attrs().Name)
}

// Detach all programs of the agent from an interface, and say whether there was any. It leaves clsact there:
// another program may use it.
func Detach(index int) (found bool, err error) {
	for direction := range wirePrograms {
		err := eachByTCX(index, direction, func(_ int, program *ebpf.Program) error {
			found = true
			return detachTCX(index, direction, program)
		})
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) {
			return found, fmt.Errorf("detach from interface %d: %w", index, err)
		}
	}
	filters, err := detachFilters(index)
	return found || filters, err
}

func detachFilters(index int) (found bool, err error) {
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		err := netlink.FilterDel(&netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Handle: filterHandle, Priority: filterPriority, Protocol: unix.ETH_P_ALL}})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) {
			return found, fmt.Errorf("detach from interface %d: %w", index, err)
		}
		found = found || err == nil
	}
	return found, nil
}

// MakeVXLAN makes the VXLAN device, or returns the index of the one that exists. It replaces any other interface
// with this name, and a device with another port. The device takes packets of all VNIs, and needs the
// port for itself. With its socket, the kernel also joins packets of VXLAN (GRO) before from_wire sees them.
func MakeVXLAN(name string, port uint16) (int, error) {
	if err := portIsFree(name, port); err != nil {
		return 0, err
	}
	link := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 65535 - 100}, FlowBased: true, Port: int(port), UDP6ZeroCSumRx: true}
	old, err := iface.ByName(name)
	if err != nil {
		return 0, err
	}
	is, ok := old.(*netlink.Vxlan)
	fits := ok && is.FlowBased && is.Port == link.Port && is.UDP6ZeroCSumRx
	if old != nil && !fits {
		if err := netlink.LinkDel(old); err != nil {
			return 0, fmt.Errorf("remove the interface %s, which is not the VXLAN device on UDP port %d: %w", name, port, err)
		}
	}
	if !fits {
		if err := netlink.LinkAdd(link); err != nil {
			return 0, fmt.Errorf("make the VXLAN device %s on UDP port %d: %w", name, port, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil { // it also sets the index, by the name
		return 0, fmt.Errorf("set the VXLAN device %s up: %w", name, err)
	}
	return link.Index, nil
}

// portIsFree returns an error if another VXLAN device has the port, even one that is down: it could not be
// set up any more, and may be the network of the cluster.
func portIsFree(name string, port uint16) error {
	links, err := iface.List()
	if err != nil {
		return err
	}
	for _, l := range links {
		if other, ok := l.(*netlink.Vxlan); ok && other.Name != name && other.Port == int(port) {
			return fmt.Errorf("the VXLAN device %s has UDP port %d, which only one of both can use: set another --vxlan-port on all agents", other.Name, port)
		}
	}
	return nil
}
