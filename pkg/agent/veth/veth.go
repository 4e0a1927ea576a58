//go:build linux

// Package veth makes the pair of interfaces that attaches a pod to a Network: one end in the pod, one
// on the node.
package veth

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
)

// Pair is an attachment as it should be.
type Pair struct {
	Owner
	MAC dataplane.MAC
	MTU int
	// Address of the pod's end. Its prefix is on the link.
	Address netip.Prefix
	// Routes are more destinations on the link.
	Routes []netip.Prefix
}

// Owner says whose a pair is. It is stored with the node's end, which is named after the ID.
type Owner struct {
	cni.ID
	// Network is the name of the CNI configuration.
	Network string
	PodUID  string
	// PodName is for people. It loses its end if the kernel cannot store all of it; see HasPodName.
	PodName string
}

// alias is the text that the kernel keeps for an interface. None of its words has a space. The
// pod's name is the last one, because it may lose its end.
func (o Owner) alias() string {
	alias := strings.Join([]string{o.Network, o.PodUID, o.Interface, o.ContainerID, o.PodName}, " ")
	if over := len(alias) - maxAlias; 0 < over && over <= len(o.PodName) {
		return alias[:maxAlias]
	}
	return alias
}

// HasPodName says whether the pod has that name, as far as the kernel could store it.
func (o Owner) HasPodName(name string) bool {
	whole := o
	whole.PodName = name
	return o.PodName != "" && whole.alias() == o.alias()
}

// ownerOf reads the alias of an interface with that name.
func ownerOf(name, alias string) (Owner, bool) {
	words := strings.Split(alias, " ")
	if len(words) != 5 {
		return Owner{}, false
	}
	o := Owner{ID: cni.ID{Interface: words[2], ContainerID: words[3]}, Network: words[0], PodUID: words[1], PodName: words[4]}
	return o, o.HostInterface() == name
}

// Port is the node's end of a pair that exists.
type Port struct {
	// Owner is zero if a call of Add ended before it had stored the owner.
	Owner
	// Name and Index of the node's end.
	Name  string
	Index int
	Up    bool
}

// maxAlias is Linux' IFALIASZ without the zero at the end.
const maxAlias = 255

// Add makes the pair, and returns the node's end, which is down. A complete pair stays unchanged, and up
// if it was up. Anything else with its name is a remainder of an earlier attempt, and is removed.
func Add(p Pair, ns *os.File) (Port, error) {
	if alias := p.alias(); len(alias) > maxAlias || strings.Count(alias, " ") != 4 {
		return Port{}, fmt.Errorf("attach %s of container %s: the kernel cannot store the owner %q", p.Interface, p.ContainerID, alias)
	}
	if err := notOfNode(ns); err != nil {
		return Port{}, fmt.Errorf("attach %s of container %s: %w", p.Interface, p.ContainerID, err)
	}
	name := p.HostInterface()
	outer, err := iface.ByName(name)
	if err != nil {
		return Port{}, err
	}
	if outer != nil {
		if outer.Type() != "veth" {
			return Port{}, fmt.Errorf("interface %s exists on the node, but another program made it: remove it", name)
		}
		different, err := p.differs(outer, ns)
		if err != nil {
			return Port{}, err
		}
		if different == "" {
			return portOf(outer), nil
		}
		if err := netlink.LinkDel(outer); err != nil && !errors.Is(err, unix.ENODEV) {
			return Port{}, fmt.Errorf("remove the unfinished interface %s: %w", name, err)
		}
	}
	port, err := p.make(ns)
	if err != nil {
		_ = Del(p.HostInterface())
		return Port{}, fmt.Errorf("attach %s of pod UID %s to %s: %w", p.Interface, p.PodUID, p.Network, err)
	}
	return port, nil
}

// notOfNode refuses the network namespace of this thread. A pod that uses it has no interfaces.
func notOfNode(ns *os.File) error {
	own, err := netns.Get()
	if err != nil {
		return fmt.Errorf("network namespace of the node: %w", err)
	}
	defer own.Close()
	if own.Equal(netns.NsHandle(ns.Fd())) {
		return errors.New("its network namespace is that of the node")
	}
	return nil
}

// make the pair from nothing.
func (p Pair) make(ns *os.File) (Port, error) {
	veth := netlink.NewVeth(netlink.NewLinkAttrs())
	veth.Name, veth.MTU = p.HostInterface(), p.MTU
	veth.PeerName, veth.PeerHardwareAddr, veth.PeerMTU, veth.PeerNamespace = p.Interface, p.MAC[:], uint32(p.MTU), netlink.NsFd(int(ns.Fd()))
	if err := netlink.LinkAdd(veth); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return Port{}, fmt.Errorf("the pod has an interface %s that another program made: %w", p.Interface, err)
		}
		return Port{}, fmt.Errorf("make the pair: %w", err)
	}
	if err := noAddress(veth); err != nil {
		return Port{}, err
	}
	if err := p.configure(ns); err != nil {
		return Port{}, err
	}
	// The owner comes last: it says that the pair is complete.
	if err := netlink.LinkSetAlias(veth, p.alias()); err != nil {
		return Port{}, fmt.Errorf("store the owner: %w", err)
	}
	return Port{Owner: p.Owner, Name: veth.Name, Index: veth.Index}, nil
}

// addrGenModeNone is IN6_ADDR_GEN_MODE_NONE.
const addrGenModeNone = 1

// noAddress keeps the kernel from giving the interface an IPv6 address. A kernel without IPv6 does
// not know the setting.
func noAddress(l netlink.Link) error {
	if err := netlink.LinkSetIP6AddrGenMode(l, addrGenModeNone); err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("keep %s without an IPv6 address: %w", l.Attrs().Name, err)
	}
	return nil
}

// Up sets the node's end up. Its programs must be attached.
func Up(p Port) error {
	if err := netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: p.Index, Name: p.Name}}); err != nil {
		return fmt.Errorf("set %s up: %w", p.Name, err)
	}
	return nil
}

// Ready waits until both ends pass packets, after both are up. The kernel activates an interface a moment after
// the other end is up, and drops its packets until then.
func Ready(p Port, ns *os.File) error {
	active := func(name string) (bool, error) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return false, fmt.Errorf("read interface %s: %w", name, err)
		}
		return link.Attrs().OperState == netlink.OperUp, nil
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		ready, err := active(p.Name)
		if ready && err == nil {
			err = iface.Inside(netns.NsHandle(ns.Fd()), func() error { ready, err = active(p.Interface); return err })
		}
		if ready || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the kernel does not activate %s or the other end, %s of pod UID %s", p.Name, p.Interface, p.PodUID)
		}
	}
}

// Del removes the pair whose end on the node has that name. It succeeds if there is none.
func Del(name string) error {
	outer, err := iface.ByName(name)
	if outer == nil {
		return err
	}
	if outer.Type() != "veth" {
		return fmt.Errorf("interface %s is not a veth: remove it by hand", name)
	}
	if err := netlink.LinkDel(outer); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove interface %s: %w", name, err)
	}
	return nil
}

// Check returns an error that names the first difference.
func Check(p Pair, ns *os.File) error {
	outer, err := netlink.LinkByName(p.HostInterface())
	if err != nil {
		return fmt.Errorf("interface %s of the node, for %s of pod UID %s: %w", p.HostInterface(), p.Interface, p.PodUID, err)
	}
	different, err := p.differs(outer, ns)
	if err == nil && different == "" && outer.Attrs().Flags&net.FlagUp == 0 {
		different = p.HostInterface() + " on the node is down"
	}
	if err == nil && different != "" {
		err = fmt.Errorf("%s of pod UID %s on %s: %s", p.Interface, p.PodUID, p.Network, different)
	}
	return err
}

// List returns the pairs of this node in the order of their names.
func List() ([]Port, error) {
	links, err := iface.List()
	if err != nil {
		return nil, err
	}
	var ports []Port
	for _, l := range links {
		if l.Type() == "veth" && cni.IsHostInterface(l.Attrs().Name) {
			ports = append(ports, portOf(l))
		}
	}
	slices.SortFunc(ports, func(a, b Port) int { return strings.Compare(a.Name, b.Name) })
	return ports, nil
}

func portOf(l netlink.Link) Port {
	is := l.Attrs()
	p := Port{Name: is.Name, Index: is.Index, Up: is.Flags&net.FlagUp != 0}
	if owner, ok := ownerOf(is.Name, is.Alias); ok {
		p.Owner = owner
	}
	return p
}

// differs returns the first difference between the pair and its two interfaces, "" if there is none.
// outer is the node's end. Whether it is up does not count.
func (p Pair) differs(outer netlink.Link, ns *os.File) (string, error) {
	is := outer.Attrs()
	if outer.Type() != "veth" {
		return is.Name + " on the node is a " + outer.Type(), nil
	}
	if is.Alias != p.alias() {
		return fmt.Sprintf("%s on the node belongs to %q", is.Name, is.Alias), nil
	}
	if is.MTU != p.MTU {
		return fmt.Sprintf("%s on the node has MTU %d, not %d", is.Name, is.MTU, p.MTU), nil
	}
	// The pod's namespace has this number in the node's.
	number, err := netlink.GetNetNsIdByFd(int(ns.Fd()))
	if err != nil {
		return "", fmt.Errorf("number of the pod's network namespace: %w", err)
	}
	if number != is.NetNsID {
		return is.Name + " on the node leads to another network namespace", nil
	}
	var different string
	err = iface.Inside(netns.NsHandle(ns.Fd()), func() (err error) {
		different, err = p.differsInside(is.Index)
		return err
	})
	return different, err
}

// differsInside compares the pod's end. other is the index of the node's end.
func (p Pair) differsInside(other int) (string, error) {
	inner, err := iface.ByName(p.Interface)
	if err != nil {
		return "", fmt.Errorf("in the pod: %w", err)
	}
	if inner == nil {
		return "it is gone", nil
	}
	is := inner.Attrs()
	switch {
	case inner.Type() != "veth" || is.ParentIndex != other:
		return "it does not lead to " + p.HostInterface() + " on the node", nil
	case !bytes.Equal(is.HardwareAddr, p.MAC[:]):
		return fmt.Sprintf("it has the MAC address %s, not %s", is.HardwareAddr, p.MAC), nil
	case is.MTU != p.MTU:
		return fmt.Sprintf("it has MTU %d, not %d", is.MTU, p.MTU), nil
	case is.Flags&net.FlagUp == 0:
		return "it is down", nil
	}
	return p.differsIP(inner)
}
