//go:build linux

package node

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/agent/veth"
)

// VXLANName is the name of the VXLAN device. A rule of the node drops all packets from
// interfaces with the prefix of pods' interfaces, and thus from this one without its program.
const VXLANName = "pod2vxlan"

// Sync finds the interfaces of pods and of the routers of those VNIs. If full, or if something failed before, it also
// compares all entries, and attaches all programs. It returns the number of entries that differed.
//
// The first Sync fills the maps before it attaches a program to a pod that runs already:
//
//	same layout as before   the programs are replaced one by one, and keep their entries
//	another layout          programs with the old maps serve until each is replaced
//	after a reboot          there are no such pods
//
// So a failed Sync leaves each interface with one of the two, and the next Sync continues, even that of an older
// version.
func (n *Node) Sync(routers []int32, full bool) (changes int, err error) {
	n.interfaces.Lock()
	defer n.interfaces.Unlock()
	ports, err := veth.List()
	if err != nil {
		return 0, err
	}
	if err := n.findPorts(ports); err != nil {
		return 0, err
	}
	// The kernel may refuse the router of one Network. Pods and other Networks do not wait for it.
	refused := n.findRouters(routers)
	n.mu.Lock()
	full = full || !n.synced || n.behind != nil || !n.hasDevice()
	n.mu.Unlock()
	if !full {
		n.mu.Lock()
		defer n.mu.Unlock()
		return 0, errors.Join(refused, n.configure(int(n.config.VXLAN)))
	}
	nodes, err := n.programs.Nodes()
	if err != nil {
		return 0, err
	}
	now, err := wiresTo(slices.Collect(maps.Keys(nodes)))
	if err != nil {
		return 0, err
	}
	device, err := bpf.MakeVXLAN(VXLANName, n.UDPPort)
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if changes, err = n.compare(now); err == nil {
		err = n.configure(device)
	}
	if n.behind = err; err != nil {
		return changes, errors.Join(refused, err)
	}
	// The entries are complete. An interface that takes no program is reported, and others do not wait for it.
	attached := n.attach(device)
	if attached == nil { // an interface without a program stays down
		attached = errors.Join(openPorts(ports, n.ports), n.programs.RemoveOthers())
	}
	n.synced = true
	close(n.told)
	n.told = make(chan struct{})
	return changes, errors.Join(refused, attached, n.forgetDrops())
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

// findPorts compares the interfaces of pods with the ports. Before the first Sync there are none. Then it
// removes interfaces whose pods have gone while no agent ran.
func (n *Node) findPorts(found []veth.Port) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	exists := map[uint32]bool{}
	for _, p := range found {
		index := uint32(p.Index)
		_, known := n.ports[index]
		if !known && !n.synced {
			if known = n.desired.Knows(types.UID(p.PodUID)); known {
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

func (n *Node) routerPorts() []uint32 { return slices.Collect(maps.Values(n.routers)) }

// findRouters compares the interfaces that lead to routers with the ports.
func (n *Node) findRouters(vnis []int32) error {
	now, errs := map[int32]uint32{}, []error(nil)
	for _, vni := range vnis {
		link, err := netlink.LinkByName(dataplane.RouterName(vni))
		if err != nil {
			errs = append(errs, fmt.Errorf("find the router of VNI %d: %w", vni, err))
			continue
		}
		now[vni] = uint32(link.Attrs().Index)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for vni, index := range n.routers {
		if now[vni] != index {
			delete(n.routers, vni)
			n.write(n.desired.DeletePort(index))
		}
	}
	for vni, index := range now {
		if n.routers[vni] == index {
			continue
		}
		// Before the first Sync the maps may be empty, and the port may have programs with other maps.
		if n.synced {
			if err := n.programs.AttachPort(int(index)); err != nil {
				errs = append(errs, fmt.Errorf("router of VNI %d: %w", vni, err))
				continue
			}
		}
		n.routers[vni] = index
		n.write(n.desired.SetPort(tables.LocalPort{Interface: index, VNI: vni}))
	}
	return errors.Join(errs...)
}

// compare reads all maps and writes the entries that differ. now has the interfaces that lead to nodes.
func (n *Node) compare(now map[netip.Addr]tables.Wire) (int, error) {
	is, wires, err := n.programs.Read()
	if err != nil {
		return 0, err
	}
	n.wires = wires
	changes, leaving := n.desired.Compare(is), map[netip.Addr]bool{}
	for _, c := range changes {
		leaving[c.Node] = leaving[c.Node] || c.Map == tables.NodeMap && c.Delete
	}
	for address, wire := range wires {
		if now[address] != wire && !leaving[address] {
			changes = append(changes, tables.Change{Map: tables.NodeMap, Node: address}) // with its present interface
		}
	}
	done, err := n.writeAll(changes)
	if err != nil { // despite the error, a port that must be closed is closed
		for _, c := range changes[done:] {
			if c.Map == tables.PortMap && c.Delete {
				err = errors.Join(err, n.writeOne(c))
			}
		}
	}
	return done, err
}

// attach all programs, also where they are attached already: another program may have removed them.
func (n *Node) attach(device int) error {
	errs := []error{n.programs.AttachVXLAN(device), n.programs.AttachLoopback()}
	for _, index := range slices.Concat(slices.Collect(maps.Keys(n.ports)), n.routerPorts()) {
		// An interface may have gone meanwhile. The next Sync removes its port.
		if err := n.programs.AttachPort(int(index)); err != nil && !errors.Is(err, unix.ENODEV) {
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

// configure the programs with this node's address.
func (n *Node) configure(device int) error {
	c := bpf.Config{Local: n.desired.Local(), VXLAN: uint32(device), Port: n.UDPPort}
	if c == n.config {
		return nil
	}
	if err := n.programs.SetConfig(c); err != nil {
		return err
	}
	n.config = c
	return nil
}
