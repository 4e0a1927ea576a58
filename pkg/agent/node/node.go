//go:build linux

package node

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/agent/veth"
)

// Config of a Node.
type Config struct {
	// Name of this Node.
	Name string
	// Directory for pinned maps, on a BPF file system.
	Directory string
	// UDPPort of VXLAN.
	UDPPort uint16
	// Changed is called when a Network came to this node or left it, or an entry could not be
	// written: then Sync is due. It must not block.
	Changed func()
	// Wrote, if not nil, is called after an event with the time that its entries took.
	Wrote func(time.Duration)
	// Patience is how long Add waits for a pod that the agent does not know yet. Defaults to 5
	// seconds.
	Patience time.Duration
}

// Node is the data plane of one node. Its methods may be called concurrently.
type Node struct {
	Config
	programs *bpf.Programs

	// interfaces is held while interfaces of pods are made or removed. It comes before mu.
	interfaces sync.Mutex

	mu       sync.Mutex
	desired  *tables.Desired
	pods     map[name]dataplane.Pod
	networks map[name]dataplane.Network
	// told is closed at each event. A request that waits for a record looks again then.
	told chan struct{}
	// ports are the interfaces of pods by index, and routers those of routers by VNI.
	ports   map[uint32]veth.Owner
	routers map[int32]uint32
	// wires are the interfaces that lead to nodes; 0 if none does.
	wires map[netip.Addr]tables.Wire
	// attached are those of them with our programs.
	attached map[uint32]bool
	// past are the drops of interfaces that are gone.
	past map[bpf.Drop]uint64
	// synced: the maps are complete. Before, events change the desired contents only.
	synced bool
	// blocked is why the first Sync cannot be, in the caller's words.
	blocked error
	// behind is why the maps lack a change. Sync repairs them.
	behind error
	config bpf.Config
}

type name struct{ namespace, name string }

// New loads the programs. The kernel stays unchanged until the first Sync: programs of an
// earlier agent continue with their maps.
func New(c Config) (*Node, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	programs, err := bpf.Load(c.Directory)
	if err != nil {
		return nil, err
	}
	if c.Patience == 0 {
		c.Patience = 5 * time.Second
	}
	return &Node{
		Config: c, programs: programs, desired: tables.New(c.Name), pods: map[name]dataplane.Pod{}, networks: map[name]dataplane.Network{},
		told: make(chan struct{}), ports: map[uint32]veth.Owner{}, routers: map[int32]uint32{},
		wires: map[netip.Addr]tables.Wire{}, attached: map[uint32]bool{}, past: map[bpf.Drop]uint64{},
	}, nil
}

// Close leaves the kernel unchanged.
func (n *Node) Close() { n.programs.Close() }

// SetPod adds a pod, or replaces the one with its name.
func (n *Node) SetPod(p dataplane.Pod) {
	n.event(func() []tables.Change {
		n.pods[name{p.Namespace, p.Name}] = p
		return n.desired.SetPod(p)
	})
}

// DeletePod removes the pod, unless another pod has its name by now.
func (n *Node) DeletePod(namespace, podName string, uid types.UID) {
	n.event(func() []tables.Change {
		if key := (name{namespace, podName}); n.pods[key].UID == uid {
			delete(n.pods, key)
		}
		return n.desired.DeletePod(namespace, podName, uid)
	})
}

// SetNetwork adds a Network, or replaces the one with its name.
func (n *Node) SetNetwork(spec dataplane.Network) {
	n.event(func() []tables.Change {
		n.networks[name{spec.Namespace, spec.Name}] = spec
		return n.desired.SetNetwork(spec)
	})
}

// DeleteNetwork removes the Network.
func (n *Node) DeleteNetwork(namespace, networkName string) {
	n.event(func() []tables.Change {
		delete(n.networks, name{namespace, networkName})
		return n.desired.DeleteNetwork(namespace, networkName)
	})
}

// SetNode adds a node, or replaces the one with its name.
func (n *Node) SetNode(other dataplane.Node) {
	n.event(func() []tables.Change { return n.desired.SetNode(other) })
}

// DeleteNode removes the node.
func (n *Node) DeleteNode(nodeName string) {
	n.event(func() []tables.Change { return n.desired.DeleteNode(nodeName) })
}

func (n *Node) event(happens func() []tables.Change) {
	begun := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	changes := happens()
	if n.write(changes); n.synced && n.behind == nil && len(changes) > 0 && n.Wrote != nil {
		n.Wrote(time.Since(begun))
	}
	close(n.told)
	n.told = make(chan struct{})
}

// write the changes in their order. After an error the rest would be unsafe, so it waits for
// Sync.
func (n *Node) write(changes []tables.Change) {
	if !n.synced || n.behind != nil {
		return
	}
	_, n.behind = n.writeAll(changes)
	if n.behind != nil || n.desired.Local() != n.config.Local || slices.ContainsFunc(changes, func(c tables.Change) bool { return c.Map == tables.NetworkMap }) {
		n.Changed()
	}
}

// writeAll the changes until one fails, and return the number of those before. It sends adjacent places together.
func (n *Node) writeAll(changes []tables.Change) (done int, err error) {
	for done < len(changes) {
		some := changes[done:]
		end := slices.IndexFunc(some, func(c tables.Change) bool { return c.Map != tables.PlaceMap || c.Delete })
		if end < 0 {
			end = len(some)
		}
		if end > 1 {
			err = n.programs.SetPlaces(some[:end])
		} else {
			end, err = 1, n.writeOne(some[0])
		}
		if err != nil {
			return done, err
		}
		done += end
	}
	return done, nil
}

func (n *Node) writeOne(c tables.Change) error {
	p := n.programs
	switch {
	case c.Map == tables.PortMap && c.Delete:
		return p.DeletePort(c.Port)
	case c.Map == tables.PortMap:
		return p.SetPort(c.Port, c.PortValue)
	case c.Map == tables.PlaceMap && c.Delete:
		return p.DeletePlace(c.Place)
	case c.Map == tables.PlaceMap:
		return p.SetPlace(c.Place, c.PlaceValue)
	case c.Map == tables.NetworkMap && c.Delete:
		return p.DeleteNetwork(c.VNI)
	case c.Map == tables.NetworkMap:
		return p.SetNetwork(c.VNI, c.NetworkValue)
	case c.Delete:
		delete(n.wires, c.Node)
		return p.DeleteNode(c.Node)
	}
	return n.writeNode(c.Node)
}

// writeNode attaches the programs to the interface that leads to a node before the entry is set.
func (n *Node) writeNode(address netip.Addr) error {
	wire, err := wireTo(address, map[int]string{})
	if err != nil {
		return err
	}
	// Without the programs the VXLAN device serves the node. The next full Sync tries again, and reports it.
	_ = n.attachWire(wire)
	n.wires[address] = wire
	return n.programs.SetNode(address, wire)
}

// State returns the part of the pods on this node that package dataplane needs.
func (n *Node) State() (here []int32, ports []dataplane.Port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for index, owner := range n.ports {
		if p, ok := n.desired.Port(index); ok {
			p.Inner = owner.Interface
			ports = append(ports, p)
		}
	}
	return n.desired.Here(), ports
}

// Ready returns why pods of this node may lack a path; nil if the maps are complete.
func (n *Node) Ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unready()
}

func (n *Node) unready() error {
	switch {
	case !n.synced && n.blocked != nil:
		return fmt.Errorf("pod2-agent on node %s: %w", n.Name, n.blocked)
	case !n.synced:
		return fmt.Errorf("pod2-agent on node %s has not programmed the data plane yet: its log has the reason", n.Name)
	case n.behind != nil:
		return fmt.Errorf("pod2-agent on node %s repairs the data plane after an error: %w", n.Name, n.behind)
	}
	return nil
}

// Block says why there can be no Sync yet. Requests of pod2-cni fail with it.
func (n *Node) Block(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked = why
}

// Problems need somebody's attention. Each is a sentence.
func (n *Node) Problems() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.desired.Problems()
}

// Size is the number of entries of each kind.
func (n *Node) Size() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.desired.Size()
}
