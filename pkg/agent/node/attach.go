//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/authorize"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/agent/veth"
)

// Add attaches a pod. The interface of the node is down until its programs are attached. These drop all packets
// until the entries are written, so no pod runs on a port without checks.
func (n *Node) Add(ctx context.Context, a cni.Attachment, ns *os.File) (cni.Result, error) {
	port, err := n.await(ctx, a)
	if err != nil {
		return cni.Result{}, err
	}
	n.interfaces.Lock()
	defer n.interfaces.Unlock()
	if ctx.Err() != nil { // the runtime may have undone the request already
		return cni.Result{}, cni.Errorf(cni.CodeTryAgainLater, "pod %s: the request ended before pod2-agent came to it: the kubelet tries again", a.Pod)
	}
	if err := n.alone(a); err != nil {
		return cni.Result{}, err
	}
	made, err := veth.Add(pairOf(a, port), ns)
	if err != nil {
		return cni.Result{}, err
	}
	if err := n.open(made, port, ns); err != nil {
		return cni.Result{}, errors.Join(err, n.remove(made.Owner, uint32(made.Index)))
	}
	return port.Result(a.ID), nil
}

// open the port. Its entries come last: a packet that arrives before the pod's end is active would be lost, and
// the sender asks for its neighbour again only a second later.
func (n *Node) open(made veth.Port, port authorize.Port, ns *os.File) error {
	if err := n.programs.AttachPort(made.Index); err != nil {
		return err
	}
	if err := veth.Up(made); err != nil {
		return err
	}
	if err := veth.Ready(made, ns); err != nil {
		return err
	}
	return n.plug(made, port)
}

// await returns the port that the pod may have. If the records do not tell yet, it waits: the
// kubelet may know a pod before the agent.
func (n *Node) await(ctx context.Context, a cni.Attachment) (authorize.Port, error) {
	ctx, cancel := context.WithTimeout(ctx, n.Patience)
	defer cancel()
	for {
		port, told, err := n.authorize(a)
		var refusal *cni.Error
		if err == nil || errors.As(err, &refusal) && refusal.Code != cni.CodeTryAgainLater {
			return port, err
		}
		select {
		case <-told:
		case <-ctx.Done():
			return port, err
		}
	}
}

func (n *Node) authorize(a cni.Attachment) (authorize.Port, <-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.synced {
		return authorize.Port{}, n.told, cni.Errorf(cni.CodeTryAgainLater, "%v", n.unready())
	}
	in := authorize.Input{Request: a, Node: n.Name, Pod: n.desired.Pod(a.Pod.Namespace, a.Pod.Name)}
	if namespace, network, ok := authorize.NetworkName(a.Network); ok {
		in.Network = n.desired.Network(namespace, network)
	}
	port, err := authorize.Attachment(in)
	return port, n.told, err
}

// alone refuses a second interface of one container on one Network: both would have the same address. An
// interface of an earlier sandbox of the pod may still exist. The newest one counts.
func (n *Node) alone(a cni.Attachment) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.ports {
		if o.ContainerID == a.ContainerID && o.Network == a.Network && o.Interface != a.Interface {
			return cni.Errorf(cni.CodeRefused, "pod %s has %s on Network %s already: it must ask for the Network once", a.Pod, o.Interface, a.Network)
		}
	}
	return nil
}

// plug writes the entries of a pod's interface.
func (n *Node) plug(made veth.Port, port authorize.Port) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	index := uint32(made.Index)
	n.ports[index] = made.Owner
	changes := n.desired.SetPort(localPort(made.Owner, index))
	if transit, reused := n.desired.Transit(index); reused {
		if err := forgetConnections(transit); err != nil {
			return err
		}
	}
	n.write(changes)
	if n.behind != nil {
		return fmt.Errorf("program interface %s: %w", made.Name, n.behind)
	}
	if p, ok := n.desired.Port(index); !ok || p.VNI != port.VNI || p.IP != port.Address.Addr() || p.MAC != port.MAC {
		return cni.Errorf(cni.CodeTryAgainLater, "pod UID %s has lost the address %s on Network %s meanwhile: another pod may have it, or the pod was deleted", made.PodUID, port.Address.Addr(), made.Network)
	}
	return nil
}

// forgetConnections of a transit address, before a port gets it. An earlier port may have had the address, and be in
// conversation with the outside. The kernel counts interfaces up, so this takes as many of them as addresses. But
// conntrack keeps a connection for days.
func forgetConnections(transit netip.Addr) error {
	family, filter := netlink.InetFamily(unix.AF_INET), &netlink.ConntrackFilter{}
	if transit.Is6() {
		family = unix.AF_INET6
	}
	err := filter.AddIP(netlink.ConntrackOrigSrcIP, transit.AsSlice())
	if err == nil {
		_, err = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter)
	}
	if err != nil {
		return fmt.Errorf("delete the connections of %s from the conntrack table: %w", transit, err)
	}
	return nil
}

// remove an interface, its entries first: no entry must lead to an index that is used again.
func (n *Node) remove(o veth.Owner, index uint32) error {
	n.mu.Lock()
	delete(n.ports, index)
	n.write(n.desired.DeletePort(index))
	n.mu.Unlock()
	return veth.Del(o.HostInterface())
}

func pairOf(a cni.Attachment, port authorize.Port) veth.Pair {
	return veth.Pair{
		Owner: veth.Owner{ID: a.ID, Network: a.Network, PodUID: a.Pod.UID, PodName: a.Pod.Name},
		MAC:   port.MAC, MTU: port.MTU, Address: port.Address, Routes: port.Routes,
	}
}

func localPort(o veth.Owner, index uint32) tables.LocalPort {
	namespace, network, _ := authorize.NetworkName(o.Network)
	return tables.LocalPort{Interface: index, Pod: types.UID(o.PodUID), Namespace: namespace, Network: network}
}

// Del removes an attachment.
func (n *Node) Del(_ context.Context, a cni.Attachment) error {
	n.interfaces.Lock()
	defer n.interfaces.Unlock()
	return n.remove(veth.Owner{ID: a.ID}, n.indexOf(a.ID))
}

// indexOf returns the index of an interface, 0 if there is none with a port.
func (n *Node) indexOf(id cni.ID) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for index, o := range n.ports {
		if o.ID == id {
			return index
		}
	}
	return 0
}

// Check compares an attachment with its pod and its port.
func (n *Node) Check(_ context.Context, a cni.Attachment, ns *os.File) (cni.Result, error) {
	n.interfaces.Lock()
	defer n.interfaces.Unlock()
	port, _, err := n.authorize(a)
	if err != nil {
		return cni.Result{}, err
	}
	if err := veth.Check(pairOf(a, port), ns); err != nil {
		return cni.Result{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for index, o := range n.ports {
		if _, open := n.desired.Port(index); o.ID == a.ID && open {
			return port.Result(a.ID), nil
		}
	}
	return cni.Result{}, fmt.Errorf("%s of pod %s has no port: another interface or another pod has its address", a.Interface, a.Pod)
}

// Status returns an error if Add would fail now.
func (n *Node) Status(context.Context) error {
	if err := n.Ready(); err != nil {
		return cni.Errorf(cni.CodeUnavailable, "%v", err)
	}
	return nil
}

// GC removes the attachments to the network that are not in the list.
func (n *Node) GC(_ context.Context, network string, valid []cni.ID) error {
	n.interfaces.Lock()
	defer n.interfaces.Unlock()
	ports, err := veth.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range ports {
		if p.Network == network && !slices.Contains(valid, p.ID) {
			errs = append(errs, n.remove(p.Owner, uint32(p.Index)))
		}
	}
	return errors.Join(errs...)
}
