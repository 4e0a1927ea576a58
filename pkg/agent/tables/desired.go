package tables

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// LocalPort is an interface of this node, by which the CNI plugin attached a pod to a Network.
type LocalPort struct {
	Interface          PortKey
	Pod                types.UID
	Namespace, Network string
}

// user is the port without its interface. If several ports have one user, only the highest
// index counts. The kernel counts up, so the highest is the newest.
func (p LocalPort) user() LocalPort {
	p.Interface = 0
	return p
}

// name of a pod, a Network or an AddressSlice.
type name struct{ namespace, name string }

// set of pointers.
type set[T any] map[*T]struct{}

// Desired is the desired contents of the maps of one node. Each event marks the entries that it
// may change, computes those, and returns the changes in an order that is safe for the data
// plane. It takes time for its own entries, not for all addresses:
//
//	a pod, a port                      the entries of this node's pods on its Networks
//	an AddressSlice                    the addresses that differ
//	the first pod or port of a Network all addresses of that Network
//	another address of this node       all addresses
//
// Desired keeps the lists of its arguments, so do not change them. Only one goroutine may use it.
type Desired struct {
	// local is the last known address of this node. Its family is that of VXLAN.
	local netip.Addr
	is    Tables
	dirty []Key // of entries that the event may change
	// pods of this node, by name and by UID.
	pods     map[name]*dataplane.Pod
	here     map[types.UID]*dataplane.Pod
	networks map[name]*network
	vnis     map[int32][]*network // in the order of names: only the first is served
	// nodes are the AddressSlices of nodes, hosts the number of their addresses by host.
	nodes    map[name]dataplane.Slice
	hosts    map[netip.Addr]int
	ports    map[PortKey]LocalPort
	plugged  map[LocalPort][]PortKey // ports by their user
	transits transits
	// concerned are the Networks that the event may open or close on this node.
	concerned set[network]
}

// New returns the desired contents for a node that knows nothing yet.
func New() *Desired {
	return &Desired{is: Empty(), pods: map[name]*dataplane.Pod{}, here: map[types.UID]*dataplane.Pod{}, networks: map[name]*network{},
		vnis: map[int32][]*network{}, nodes: map[name]dataplane.Slice{}, hosts: map[netip.Addr]int{}, ports: map[PortKey]LocalPort{}, plugged: map[LocalPort][]PortKey{},
		transits: transits{of: map[PortKey]netip.Addr{}, user: map[netip.Addr]PortKey{}}, concerned: set[network]{}}
}

// Tables returns a copy of the whole contents.
func (d *Desired) Tables() Tables {
	return Tables{maps.Clone(d.is.Ports), maps.Clone(d.is.Places), maps.Clone(d.is.Networks), maps.Clone(d.is.Nodes), maps.Clone(d.is.Transits)}
}

// Local returns the last known address of this node. It is zero if there was none.
func (d *Desired) Local() netip.Addr { return d.local }

// SetPod adds a pod of this node, or replaces the one with its name.
func (d *Desired) SetPod(p dataplane.Pod) []Change {
	key := name{p.Namespace, p.Name}
	d.dropPod(d.pods[key])
	d.pods[key], d.here[p.UID] = &p, &p
	for _, a := range p.Attachments {
		n := d.network(name{p.Namespace, a.Network})
		n.pods[&p], n.unsettled = struct{}{}, true
	}
	return d.finish()
}

// DeletePod removes the pod, unless another pod has its name by now.
func (d *Desired) DeletePod(namespace, podName string, uid types.UID) []Change {
	p := d.pods[name{namespace, podName}]
	if p == nil || p.UID != uid {
		return nil
	}
	d.dropPod(p)
	return d.finish()
}

func (d *Desired) dropPod(p *dataplane.Pod) {
	if p == nil {
		return
	}
	for _, a := range p.Attachments {
		n := d.network(name{p.Namespace, a.Network})
		delete(n.pods, p)
		n.unsettled = true
	}
	if d.here[p.UID] == p {
		delete(d.here, p.UID)
	}
	delete(d.pods, name{p.Namespace, p.Name})
}

// SetNode sets the addresses of this node. While it has none, its last one counts.
func (d *Desired) SetNode(self []netip.Addr) []Change {
	if len(self) == 0 || self[0] == d.local {
		return nil
	}
	d.local = self[0]
	for host := range d.hosts {
		d.dirty = append(d.dirty, nodeKey(host))
	}
	for _, n := range d.networks {
		d.markAll(n)
	}
	return d.flush()
}

// SetSlice adds an AddressSlice, or replaces the one with its name.
func (d *Desired) SetSlice(s dataplane.Slice) []Change {
	if s.Network == "" {
		return d.setNodes(s)
	}
	n := d.network(name{s.Namespace, s.Network})
	if n.slices[s.Name] == nil {
		n.slices[s.Name] = &dataplane.Slice{}
	}
	d.replace(n, n.slices[s.Name], s)
	d.specify(n)
	return d.finish()
}

// DeleteSlice removes the AddressSlice.
func (d *Desired) DeleteSlice(s dataplane.Slice) []Change {
	if s.Network == "" {
		s.Locations = nil
		return d.setNodes(s)
	}
	n := d.network(name{s.Namespace, s.Network})
	d.dropSlice(n, s.Name)
	d.specify(n)
	return d.finish()
}

// DeleteNetwork removes all AddressSlices of the Network.
func (d *Desired) DeleteNetwork(namespace, networkName string) []Change {
	n := d.network(name{namespace, networkName})
	for s := range n.slices {
		d.dropSlice(n, s)
	}
	d.specify(n)
	return d.finish()
}

func (d *Desired) dropSlice(n *network, sliceName string) {
	if s := n.slices[sliceName]; s != nil {
		d.replace(n, s, dataplane.Slice{})
		delete(n.slices, sliceName)
	}
}

// setNodes replaces an AddressSlice of nodes. It keeps no empty one.
func (d *Desired) setNodes(s dataplane.Slice) []Change {
	key := name{s.Namespace, s.Name}
	for l, more := range differences(d.nodes[key].Locations, s.Locations) {
		d.dirty = append(d.dirty, nodeKey(l.Host))
		if d.hosts[l.Host] += more; d.hosts[l.Host] == 0 {
			delete(d.hosts, l.Host)
		}
	}
	if d.nodes[key] = s; len(s.Locations) == 0 {
		delete(d.nodes, key)
	}
	return d.flush()
}

// SetPort adds a port, or replaces the one with its interface index.
func (d *Desired) SetPort(p LocalPort) []Change {
	d.dropPort(p.Interface)
	d.ports[p.Interface] = p
	d.plugged[p.user()] = append(d.plugged[p.user()], p.Interface)
	d.transits.take(p.Interface)
	d.touch(p, 1)
	return d.finish()
}

// DeletePort removes the port.
func (d *Desired) DeletePort(index PortKey) []Change {
	d.dropPort(index)
	return d.finish()
}

func (d *Desired) dropPort(index PortKey) {
	p, exists := d.ports[index]
	if !exists {
		return
	}
	d.touch(p, -1)
	d.transits.release(index)
	delete(d.ports, index)
	rest := slices.DeleteFunc(d.plugged[p.user()], func(i PortKey) bool { return i == index })
	if d.plugged[p.user()] = rest; len(rest) == 0 {
		delete(d.plugged, p.user())
	}
}

// touch marks the entries that depend on the user of the port, and counts the Network's ports.
func (d *Desired) touch(p LocalPort, more int) {
	n := d.network(name{p.Namespace, p.Network})
	n.ports += more
	if pod := d.here[p.Pod]; pod != nil {
		d.mark(n, pod)
	}
}
