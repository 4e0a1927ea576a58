package tables

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// LocalPort is an interface of this node: of a pod, which the CNI plugin attached to a Network,
// or of the router of a VNI.
type LocalPort struct {
	Interface PortKey
	// Pod, Namespace and Network are empty for a router.
	Pod                types.UID
	Namespace, Network string
	// VNI is 0 for a pod.
	VNI int32
}

// user is the port without its interface. If several ports have one user, only the highest
// index counts. The kernel counts up, so the highest is the newest.
func (p LocalPort) user() LocalPort {
	p.Interface = 0
	return p
}

// name of a pod or Network.
type name struct{ namespace, name string }

// set of pointers.
type set[T any] map[*T]struct{}

// Desired is the desired contents of the maps of one node. Each event marks the entries that it
// may change, computes those, and returns the changes in an order that is safe for the data
// plane. It takes time for its own entries, not for all pods:
//
//	a pod, a port                      the pod's entries
//	the first pod or port of a Network the pods of that Network
//	another address of a node          the pods of that node
//
// Desired keeps the lists of its arguments, so do not change them. Only one goroutine may use it.
type Desired struct {
	self string // the name of this node
	// local is the last known address of this node. Its family is that of VXLAN.
	local    netip.Addr
	is       Tables
	dirty    []key // of entries that the event may change
	pods     map[name]*dataplane.Pod
	here     map[types.UID]*dataplane.Pod // pods of this node
	networks map[name]*network
	vnis     map[int32][]*network // in the order of names: only the first is served
	nodes    map[string]*node
	vteps    map[netip.Addr]int // number of nodes with the address
	ports    map[PortKey]LocalPort
	plugged  map[LocalPort][]PortKey // ports by their user
	// concerned are the Networks that the event may open or close on this node.
	concerned set[network]
}

// node is any node. It may be unknown. Its vtep is zero if this node can send no VXLAN to it.
type node struct {
	addresses []netip.Addr
	vtep      netip.Addr
	pods      set[dataplane.Pod]
}

// New returns the desired contents for the node with that name.
func New(nodeName string) *Desired {
	return &Desired{self: nodeName, is: Empty(), pods: map[name]*dataplane.Pod{}, here: map[types.UID]*dataplane.Pod{}, networks: map[name]*network{},
		vnis: map[int32][]*network{}, nodes: map[string]*node{}, vteps: map[netip.Addr]int{}, ports: map[PortKey]LocalPort{}, plugged: map[LocalPort][]PortKey{}, concerned: set[network]{}}
}

// Tables returns a copy of the whole contents.
func (d *Desired) Tables() Tables {
	return Tables{maps.Clone(d.is.Ports), maps.Clone(d.is.Places), maps.Clone(d.is.Networks), maps.Clone(d.is.Nodes)}
}

// Local returns the last known address of this node. It is zero if there was none.
func (d *Desired) Local() netip.Addr { return d.local }

// SetPod adds a pod, or replaces the one with its name.
func (d *Desired) SetPod(p dataplane.Pod) []Change {
	d.dropPod(d.pods[name{p.Namespace, p.Name}])
	d.pods[name{p.Namespace, p.Name}] = &p
	d.node(p.Node).pods[&p] = struct{}{}
	if p.Node == d.self {
		d.here[p.UID] = &p
	}
	for _, a := range p.Attachments {
		n := d.network(name{p.Namespace, a.Network})
		n.pods(p.Node == d.self)[&p] = struct{}{}
		d.index(n, &p)
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
		d.unindex(n, p)
		delete(n.pods(p.Node == d.self), p)
	}
	delete(d.node(p.Node).pods, p)
	d.forget(p.Node)
	if d.here[p.UID] == p {
		delete(d.here, p.UID)
	}
	delete(d.pods, name{p.Namespace, p.Name})
}

// SetNode adds a node, or replaces the one with its name. While this node has no address, its
// last one counts.
func (d *Desired) SetNode(n dataplane.Node) []Change {
	d.node(n.Name).addresses = n.Addresses
	d.address(n.Name)
	if n.Name == d.self && len(n.Addresses) > 0 && n.Addresses[0] != d.local {
		d.local = n.Addresses[0]
		for other := range d.nodes {
			d.address(other)
		}
	}
	d.forget(n.Name)
	return d.finish()
}

// DeleteNode removes the node. Its pods have no place then.
func (d *Desired) DeleteNode(nodeName string) []Change {
	return d.SetNode(dataplane.Node{Name: nodeName})
}

// address sets the address that this node sends VXLAN to: the first one of its own family.
func (d *Desired) address(nodeName string) {
	x, vtep := d.nodes[nodeName], netip.Addr{}
	i := slices.IndexFunc(x.addresses, func(a netip.Addr) bool { return a.Is4() == d.local.Is4() })
	if nodeName != d.self && d.local.IsValid() && i >= 0 && x.addresses[i] != d.local {
		vtep = x.addresses[i]
	}
	if vtep == x.vtep {
		return
	}
	d.count(x.vtep, -1)
	d.count(vtep, 1)
	x.vtep = vtep
	for p := range x.pods {
		for _, a := range p.Attachments {
			d.mark(d.networks[name{p.Namespace, a.Network}], p)
		}
	}
}

// count the nodes with that address.
func (d *Desired) count(vtep netip.Addr, more int) {
	if !vtep.IsValid() {
		return
	}
	d.dirty = append(d.dirty, key{in: NodeMap, node: vtep})
	if d.vteps[vtep] += more; d.vteps[vtep] == 0 {
		delete(d.vteps, vtep)
	}
}

func (d *Desired) node(nodeName string) *node {
	x := d.nodes[nodeName]
	if x == nil {
		x = &node{pods: set[dataplane.Pod]{}}
		d.nodes[nodeName] = x
	}
	return x
}

// forget the node if nothing is known of it.
func (d *Desired) forget(nodeName string) {
	if x := d.nodes[nodeName]; len(x.addresses)+len(x.pods) == 0 {
		delete(d.nodes, nodeName)
	}
}

// SetNetwork adds a Network, or replaces the one with its name.
func (d *Desired) SetNetwork(spec dataplane.Network) []Change {
	n := d.network(name{spec.Namespace, spec.Name})
	was := n.spec
	was.MTU, was.Egress = spec.MTU, spec.Egress
	if was == spec { // no pod is concerned
		n.spec = spec
		d.markVNI(spec.VNI)
		return d.finish()
	}
	d.dropNetwork(n)
	n.spec = spec
	list := append(d.vnis[spec.VNI], n)
	slices.SortFunc(list, func(a, b *network) int { return strings.Compare(a.String(), b.String()) })
	d.vnis[spec.VNI] = list
	d.concern(list)
	return d.finish()
}

// DeleteNetwork removes the Network.
func (d *Desired) DeleteNetwork(namespace, networkName string) []Change {
	d.dropNetwork(d.network(name{namespace, networkName}))
	return d.finish()
}

func (d *Desired) dropNetwork(n *network) {
	d.close(n)
	rest := slices.DeleteFunc(d.vnis[n.spec.VNI], func(other *network) bool { return other == n })
	if d.vnis[n.spec.VNI] = rest; len(rest) == 0 {
		delete(d.vnis, n.spec.VNI)
	}
	d.concern(rest)
	n.spec = dataplane.Network{}
}

// SetPort adds a port, or replaces the one with its interface index.
func (d *Desired) SetPort(p LocalPort) []Change {
	d.dropPort(p.Interface)
	d.ports[p.Interface] = p
	d.plugged[p.user()] = append(d.plugged[p.user()], p.Interface)
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
	delete(d.ports, index)
	rest := slices.DeleteFunc(d.plugged[p.user()], func(i PortKey) bool { return i == index })
	if d.plugged[p.user()] = rest; len(rest) == 0 {
		delete(d.plugged, p.user())
	}
}

// touch marks the entries that depend on the user of the port, and counts the Network's ports.
func (d *Desired) touch(p LocalPort, more int) {
	if p.VNI != 0 {
		d.markVNI(p.VNI)
		return
	}
	n := d.network(name{p.Namespace, p.Network})
	n.ports += more
	if pod := d.here[p.Pod]; pod != nil {
		d.mark(n, pod)
	}
}
