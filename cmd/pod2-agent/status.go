//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
	"github.com/pod2/pod2/pkg/agent/kernel"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/agent/veth"
)

// snapshot has the entries of the maps and the interfaces of the node at one moment.
type snapshot struct {
	tables.View
	drops map[bpf.Drop]uint64
	// filtered are the packets that the rules of the node dropped, by their comments.
	filtered map[string]uint64
	rules    kernel.Rules
	// unread is why there are no rules and no packets of theirs.
	unread error
	// links are the names of all interfaces, by index. down has those that are down.
	links map[uint32]string
	down  map[uint32]bool
	// pairs are the interfaces of pods, by index.
	pairs map[uint32]veth.Port
	// networks are the names of Networks, by VNI. The maps lack them; the pods' interfaces have them.
	networks map[int32]string
}

// readSnapshot reads the maps that are pinned in dir. It changes nothing.
func readSnapshot(dir string) (s *snapshot, err error) {
	m, err := bpf.Open(dir)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s = &snapshot{links: map[uint32]string{}, down: map[uint32]bool{}, pairs: map[uint32]veth.Port{}}
	var errs [3]error
	s.Tables, s.Wires, errs[0] = m.Read()
	s.Config, errs[1] = m.Config()
	s.drops, errs[2] = m.Drops()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// Without the rules, the tables still say how pods reach each other.
	if s.rules, err = kernel.ReadRules(); err != nil {
		s.unread = fmt.Errorf("the packets that the rules of the node drop are missing here, because nftables could not be read: run this as root in the node's network, or see the output of nft list table inet %s: %w", dataplane.TableName, err)
	} else {
		s.filtered = s.rules.Drops()
	}
	links, err := iface.List()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		index := uint32(l.Attrs().Index)
		s.links[index], s.down[index] = l.Attrs().Name, l.Attrs().Flags&net.FlagUp == 0
	}
	pairs, err := veth.List()
	if err != nil {
		return nil, err
	}
	for _, p := range pairs {
		s.pairs[uint32(p.Index)] = p
	}
	s.complete()
	return s, nil
}

// complete the fields that follow from the others.
func (s *snapshot) complete() {
	s.Name = s.describe
	s.networks = map[int32]string{}
	for index, port := range s.Ports {
		if network := s.pairs[index].Network; network != "" {
			s.networks[port.VNI] = strings.Replace(network, ".", "/", 1)
		}
	}
}

// status prints a summary of the tables that the programs of this node read, or one of these tables. If something is missing in
// it, the error says why.
func status(out io.Writer, dir, table string) error {
	print, known := listings[table]
	if !known {
		return fmt.Errorf("unknown table %q: must be ports, places, networks, nodes or drops", table)
	}
	s, err := readSnapshot(dir)
	if err != nil {
		return err
	}
	return print(s, out)
}

// trace prints how the programs of this node treat a packet from a pod to an address. If the pod is
// on several Networks, it does so for each.
func trace(out io.Writer, dir, pod, address string) error {
	to, err := netip.ParseAddr(address)
	if err != nil {
		return fmt.Errorf("trace to %q: it is not an IP address", address)
	}
	s, err := readSnapshot(dir)
	if err != nil {
		return err
	}
	return s.trace(out, pod, to.WithZone("").Unmap())
}

func (s *snapshot) trace(out io.Writer, pod string, to netip.Addr) error {
	found, ruled := false, false
	s.Exit = func(to netip.Addr) tables.Exit {
		ruled = true
		return s.exit(to)
	}
	for _, index := range s.indexes() {
		if !s.is(index, pod) {
			continue
		}
		if found {
			fmt.Fprintln(out)
		}
		found = true
		fmt.Fprintf(out, "From %s to %s:\n", s.describe(index), to)
		for i, sentence := range s.Trace(index, to) {
			fmt.Fprintf(out, "  %d. %s\n", i+1, sentence)
		}
	}
	if !found {
		return fmt.Errorf("no port on this node belongs to %q: run this on the pod's node, with the pod's [namespace/]name, UID, address on the Network, or interface; status ports lists the ports", pod)
	}
	if ruled {
		return s.unread
	}
	return nil
}

// is says whether the interface belongs to a pod with that name, UID or address, or has that name.
func (s *snapshot) is(index uint32, pod string) bool {
	owner := s.pairs[index].Owner
	if pod == s.links[index] || pod == owner.PodUID {
		return pod != ""
	}
	if port, open := s.Ports[index]; open {
		if ip, err := netip.ParseAddr(pod); err == nil && ip.Unmap() == port.IP.Addr() {
			return true
		}
	}
	namespace, name, both := strings.Cut(pod, "/")
	if !both {
		return owner.HasPodName(pod)
	}
	of, _, _ := strings.Cut(owner.Network, ".")
	return of == namespace && owner.HasPodName(name)
}

// indexes of the ports in the table and of the interfaces of pods, in order.
func (s *snapshot) indexes() []uint32 {
	all := slices.AppendSeq(slices.Collect(maps.Keys(s.Ports)), maps.Keys(s.pairs))
	slices.Sort(all)
	return slices.Compact(all)
}

// exit asks the node's routes and rules. An address without a route has no interface.
func (s *snapshot) exit(to netip.Addr) tables.Exit {
	exit := tables.Exit{Refusals: s.rules.Refuses(to), Unread: s.unread != nil}
	if routes, err := netlink.RouteGet(to.AsSlice()); err == nil && len(routes) > 0 {
		exit.Interface, exit.Local = uint32(routes[0].LinkIndex), routes[0].Type == unix.RTN_LOCAL
	}
	return exit
}

// link is the name of an interface; "" if there is none.
func (s *snapshot) link(index uint32) string {
	if name := s.links[index]; name != "" || index == 0 {
		return name
	}
	return fmt.Sprintf("%d (deleted)", index)
}

// describe the interface in a sentence.
func (s *snapshot) describe(index uint32) string {
	text := "interface " + s.link(index)
	if s.down[index] {
		text += " (down)"
	}
	if pod := s.pod(index); pod != "" {
		text += " of pod " + pod
	}
	return text
}

// pod of the interface: its namespace and name; "" if there is none.
func (s *snapshot) pod(index uint32) string {
	owner := s.pairs[index].Owner
	namespace, _, _ := strings.Cut(owner.Network, ".")
	switch {
	case owner.PodUID == "":
		return ""
	case owner.PodName == "":
		return namespace + "/(no name)"
	}
	return namespace + "/" + owner.PodName
}
