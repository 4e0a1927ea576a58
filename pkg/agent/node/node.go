//go:build linux

package node

import (
	"cmp"
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
	// Transit has the addresses that the node sees instead of IPv4 addresses of pods.
	Transit netip.Prefix
	// Changed is called when a Network came to this node or left it, or an entry could not be
	// written: then Sync is due. It must not block.
	Changed func()
	// Wrote, if not nil, is called after an event with the time that its entries took.
	Wrote func(time.Duration)
	// AllowBypass lets sockets of this Node send past the programs.
	AllowBypass bool
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

	mu      sync.Mutex
	desired *tables.Desired
	// told is closed at each event. A request that waits for a record looks again then.
	told chan struct{}
	// ports are the interfaces of pods by index.
	ports map[uint32]veth.Owner
	// wires are the interfaces that lead to nodes; 0 if none does.
	wires map[netip.Addr]tables.Wire
	// attached are those of them with our programs.
	attached map[uint32]bool
	// names of Networks by VNI. Those that left the node keep their drops.
	names map[int32]name
	// past are the drops of interfaces that are gone.
	past map[bpf.Drop]uint64
	// synced: the maps are complete. Before, events change the desired contents only.
	synced bool
	// blocked is why the first Sync cannot be, in the caller's words.
	blocked error
	// behind is why the maps lack a change. Sync repairs them.
	behind error
	// recorded are the changes that were written since recording began, while compare reads the maps.
	recording bool
	recorded  []tables.Change
	config    tables.Config
	// bypass is why sockets of this Node can send past the programs.
	bypass error
	// peer is the end of the gateway's pair that has programs.
	peer uint32
}

type name struct{ namespace, name string }

// New loads the programs. Those of an earlier agent continue with their maps until the first Sync. New attaches only the
// program that refuses sockets which send past the others.
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
	// Ports keep the transit addresses that they have from an earlier agent.
	transits, err := programs.Transits()
	if err != nil {
		programs.Close()
		return nil, err
	}
	n := &Node{
		Config: c, programs: programs, desired: tables.New(),
		told: make(chan struct{}), ports: map[uint32]veth.Owner{},
		wires: map[netip.Addr]tables.Wire{}, attached: map[uint32]bool{}, past: map[bpf.Drop]uint64{}, names: map[int32]name{},
	}
	n.desired.SetTransits(c.Transit, transits)
	// At once, because pods in the node's network start without the agent.
	if !c.AllowBypass {
		n.bypass = programs.RefuseBypass()
	} else if err := programs.AllowBypass(); err != nil {
		programs.Close()
		return nil, err
	}
	return n, nil
}

// Close leaves the kernel unchanged.
func (n *Node) Close() { n.programs.Close() }

// SetPod adds a pod of this node, or replaces the one with its name.
func (n *Node) SetPod(p dataplane.Pod) {
	n.event(func() []tables.Change { return n.desired.SetPod(p) })
}

// DeletePod removes the pod, unless another pod has its name by now.
func (n *Node) DeletePod(namespace, podName string, uid types.UID) {
	n.event(func() []tables.Change { return n.desired.DeletePod(namespace, podName, uid) })
}

// SetNode sets the addresses of this node, the preferred one first.
func (n *Node) SetNode(self []netip.Addr) {
	n.event(func() []tables.Change { return n.desired.SetNode(self) })
}

// SetSlice adds an AddressSlice, or replaces the one with its name. If it changes the properties of its Network, a
// Sync is due.
func (n *Node) SetSlice(s dataplane.Slice) {
	n.event(func() []tables.Change {
		was := n.desired.Network(s.Namespace, s.Network)
		changes := n.desired.SetSlice(s)
		is := n.desired.Network(s.Namespace, s.Network)
		if is != nil {
			n.names[is.VNI] = name{is.Namespace, is.Name}
		}
		if n.synced && was != nil && is != nil && *was != *is {
			n.Changed()
		}
		return changes
	})
}

// DeleteSlice removes the AddressSlice.
func (n *Node) DeleteSlice(s dataplane.Slice) {
	n.event(func() []tables.Change { return n.desired.DeleteSlice(s) })
}

// DeleteNetwork removes all AddressSlices of the Network.
func (n *Node) DeleteNetwork(namespace, network string) {
	n.event(func() []tables.Change { return n.desired.DeleteNetwork(namespace, network) })
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
		end := slices.IndexFunc(some, func(c tables.Change) bool { return c.Map != tables.PlaceMap || c.Value == nil })
		if end < 0 {
			end = len(some)
		}
		if end > 1 {
			err = n.programs.SetPlaces(some[:end])
		} else {
			end, err = 1, n.writeOne(some[0])
		}
		if err != nil {
			n.recording = false
			return done, err
		}
		if n.recording {
			n.recorded = append(n.recorded, some[:end]...)
		}
		done += end
	}
	return done, nil
}

func (n *Node) writeOne(c tables.Change) error {
	if c.Map == tables.NodeMap {
		if c.Value != nil {
			return n.writeNode(c.Key)
		}
		delete(n.wires, c.Address)
	}
	return n.programs.Write(c)
}

// writeNode attaches the programs to the interface that leads to a node before the entry is set.
func (n *Node) writeNode(k tables.Key) error {
	wire, err := wireTo(k.Address, map[int]string{})
	if err != nil {
		return err
	}
	// Without the programs the VXLAN device serves the node. The next full Sync tries again, and reports it.
	_ = n.attachWire(wire)
	n.wires[k.Address] = wire
	return n.programs.Write(tables.Change{Key: k, Value: wire})
}

// State returns the Networks on this node, and the ports whose pods need a route after their Network has grown.
func (n *Node) State() (here []dataplane.Network, grown []dataplane.Port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for index, owner := range n.ports {
		if p, ok := n.desired.Port(index); ok && p.Route.IsValid() {
			p.Inner = owner.Interface
			grown = append(grown, p)
		}
	}
	slices.SortFunc(grown, func(a, b dataplane.Port) int { return cmp.Compare(a.Interface, b.Interface) })
	return n.desired.Networks(), grown
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
	return append(n.desired.Problems(), n.EarlyProblems()...)
}

// EarlyProblems are those that New found. The others depend on the cluster.
func (n *Node) EarlyProblems() (problems []string) {
	if n.bypass != nil {
		problems = append(problems, fmt.Sprintf("a program with NET_RAW in the node's own network may send past the eBPF programs to pods of Networks, because the agent could not make the kernel refuse it: give NET_RAW to no untrusted pod with hostNetwork on this node: %v", n.bypass))
	}
	return problems
}

// Size is the number of entries of each kind.
func (n *Node) Size() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.desired.Size()
}
