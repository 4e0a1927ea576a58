//go:build linux

package node

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/agent/veth"
)

// VXLANName is the name of the VXLAN device. A rule of the node drops all packets from
// interfaces with the prefix of pods' interfaces, and thus from this one without its program.
const VXLANName = "pod2vxlan"

// Sync finds the interfaces of pods. If full, or if something failed before or an interface is new, it also
// compares all entries, and attaches all programs. It returns the number of entries that differed, apart from those of
// moved routes, and how long it took to compare and attach: zero if it did not.
//
// The first Sync fills the maps before it attaches a program to a pod that runs already:
//
//	same layout as before   the programs are replaced one by one, and keep their entries
//	another layout          programs with the old maps serve until each is replaced
//	after a reboot          there are no such pods
//
// So a failed Sync leaves each interface with one of the two, and the next Sync continues, even that of an older
// version.
func (n *Node) Sync(full bool) (changes int, took time.Duration, err error) {
	n.interfaces.Lock()
	defer n.interfaces.Unlock()
	begun := time.Now() // Add may have held the lock for seconds
	ports, err := veth.List()
	if err != nil {
		return 0, 0, err
	}
	if err := n.findPorts(ports); err != nil {
		return 0, 0, err
	}
	// Pods reach each other without the gateway.
	gateway, peer, missing := gatewayPair()
	n.mu.Lock()
	full = full || !n.synced || n.behind != nil || !n.hasDevice() || gateway != n.config.Gateway || peer != n.peer
	n.mu.Unlock()
	if !full {
		n.mu.Lock()
		defer n.mu.Unlock()
		return 0, 0, errors.Join(missing, n.configure(int(n.config.VXLAN), gateway))
	}
	defer func() { took = time.Since(begun) }()
	nodes, err := n.programs.Nodes()
	if err != nil {
		return 0, 0, err
	}
	now, err := wiresTo(slices.Collect(maps.Keys(nodes)))
	if err != nil {
		return 0, 0, err
	}
	device, err := bpf.MakeVXLAN(VXLANName, n.UDPPort)
	if err != nil {
		return 0, 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if changes, err = n.compare(now); err == nil {
		err = n.configure(device, gateway)
	}
	if n.behind = err; err != nil {
		return changes, 0, errors.Join(missing, err)
	}
	// The entries are complete. An interface that takes no program is reported, and others do not wait for it.
	attached := n.attach(device, peer)
	if attached == nil { // an interface without a program stays down
		attached = errors.Join(openPorts(ports, n.ports), n.programs.RemoveOthers())
	}
	n.synced = true
	close(n.told)
	n.told = make(chan struct{})
	return changes, 0, errors.Join(missing, attached, n.forgetDrops())
}

// gatewayPair are the indexes of the interfaces by which packets leave Networks: that of the node's stack, and that
// of the programs.
func gatewayPair() (gateway, peer uint32, err error) {
	var index [2]uint32
	for i, name := range []string{dataplane.GatewayName, dataplane.GatewayPeer} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return 0, 0, fmt.Errorf("find the interface %s: %w", name, err)
		}
		index[i] = uint32(link.Attrs().Index)
	}
	return index[0], index[1], nil
}

// hasDevice says whether the VXLAN device is there and up.
func (n *Node) hasDevice() bool {
	link, err := netlink.LinkByName(VXLANName)
	return err == nil && uint32(link.Attrs().Index) == n.config.VXLAN && link.Attrs().Flags&net.FlagUp != 0
}

// openPorts sets interfaces up that have programs by now: somebody set them down, or an agent ended during Add.
func openPorts(found []veth.Port, known map[uint32]veth.Owner) error {
	for _, p := range found {
		if _, ok := known[uint32(p.Index)]; ok && !p.Up {
			if err := veth.Up(p); err != nil && !errors.Is(err, unix.ENODEV) {
				return err
			}
		}
	}
	return nil
}

// findPorts compares the interfaces of pods with the ports. Before the first Sync there are none. The port of an unknown
// pod stays closed. Its interface stays, too: the first list of pods may be older than the pod, and nobody would
// attach a running pod again. Only an interface without owner is removed, because its Add never ended.
func (n *Node) findPorts(found []veth.Port) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	exists := map[uint32]bool{}
	for _, p := range found {
		index := uint32(p.Index)
		_, known := n.ports[index]
		if !known && !n.synced {
			if known = p.Owner != (veth.Owner{}); known {
				n.ports[index] = p.Owner
				n.write(n.desired.SetPort(localPort(p.Owner, index)))
			} else if err := veth.Del(p.Name); err != nil {
				return err
			}
		}
		exists[index] = known
	}
	for index := range n.ports {
		if !exists[index] {
			delete(n.ports, index)
			n.write(n.desired.DeletePort(index))
		}
	}
	return nil
}

// compare reads all maps and writes the entries that differ. now has the interfaces that lead to nodes. compare unlocks
// n.mu while it reads, which takes most of its time. The changes that events write meanwhile count as read. Entries that
// follow a moved route do not count: nobody changed them.
func (n *Node) compare(now map[netip.Addr]tables.Wire) (int, error) {
	n.recording = true
	n.mu.Unlock()
	is, _, err := n.programs.Read()
	n.mu.Lock()
	recorded, complete := n.recorded, n.recording
	n.recorded, n.recording = nil, false
	var wires map[netip.Addr]tables.Wire
	switch {
	case !complete: // a change failed, and may have been written in part
		is, wires, err = n.programs.Read()
	case err == nil:
		for _, c := range recorded {
			is.Apply(c)
		}
		wires, err = n.programs.Nodes()
	}
	if err != nil {
		return 0, err
	}
	var moved []tables.Change
	was := n.wires
	n.wires = wires
	changes, leaving := n.desired.Compare(is), map[netip.Addr]bool{}
	for _, c := range changes {
		if c.Map == tables.NodeMap && c.Value == nil {
			leaving[c.Address] = true
		}
	}
	for address, wire := range wires {
		if is, known := now[address]; known && is != wire && !leaving[address] {
			c := tables.Change{Key: tables.Key{Map: tables.NodeMap, Address: address}, Value: struct{}{}} // with its present interface
			if wire == was[address] {
				moved = append(moved, c)
			} else {
				changes = append(changes, c)
			}
		}
	}
	differ := len(changes)
	changes = append(changes, moved...)
	done, err := n.writeAll(changes)
	if err != nil { // despite the error, a port that must be closed is closed
		for _, c := range changes[done:] {
			if c.Map == tables.PortMap && c.Value == nil {
				err = errors.Join(err, n.writeOne(c))
			}
		}
	}
	return min(done, differ), err
}

// attach all programs, also where they are attached already: another program may have removed them.
func (n *Node) attach(device int, peer uint32) error {
	errs := []error{n.programs.AttachVXLAN(device), n.programs.AttachLoopback()}
	if peer != 0 {
		err := n.programs.AttachGateway(int(n.config.Gateway), int(peer))
		if errs = append(errs, err); err == nil {
			n.peer = peer // otherwise the next Sync is full too
		}
	}
	var ports []int
	for index := range n.ports {
		ports = append(ports, int(index))
	}
	for _, err := range n.programs.AttachPorts(ports) {
		// An interface may have gone meanwhile. The next Sync removes its port.
		if !errors.Is(err, unix.ENODEV) {
			errs = append(errs, err)
		}
	}
	n.attached = map[uint32]bool{}
	tried := map[uint32]bool{}
	for _, wire := range n.wires {
		if !tried[wire.Interface] {
			errs = append(errs, n.attachWire(wire))
		}
		tried[wire.Interface] = true
	}
	return errors.Join(errs...)
}

func (n *Node) attachWire(wire tables.Wire) error {
	index := wire.Interface
	if index == 0 || n.attached[index] {
		return nil
	}
	if err := n.programs.AttachWire(int(index)); err != nil {
		return err
	}
	n.attached[index] = true
	return nil
}

// configure the programs with this node's address and interfaces.
func (n *Node) configure(device int, gateway uint32) error {
	c := tables.Config{Local: n.desired.Local(), VXLAN: uint32(device), UDPPort: n.UDPPort, Gateway: gateway}
	if c == n.config {
		return nil
	}
	if err := n.programs.SetConfig(c); err != nil {
		return err
	}
	n.config = c
	return nil
}
