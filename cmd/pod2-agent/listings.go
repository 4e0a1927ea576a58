//go:build linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

// listings are the tables of status.
var listings = map[string]func(*snapshot, io.Writer) error{
	"": (*snapshot).summary, "ports": (*snapshot).listPorts, "places": (*snapshot).listPlaces, "networks": (*snapshot).listNetworks,
	"nodes": (*snapshot).listNodes, "drops": (*snapshot).listDrops,
}

// columns prints lines whose cells are separated by tabs. Without a line it prints the hint.
func columns(out io.Writer, head string, lines []string, hint string) error {
	if len(lines) == 0 {
		_, err := fmt.Fprintln(out, hint)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if head != "" {
		fmt.Fprintln(w, head)
	}
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

// row joins the cells. Empty ones become "-".
func row(cells ...any) string {
	var text []string
	for _, c := range cells {
		text = append(text, cmp.Or(strings.ReplaceAll(fmt.Sprint(c), "invalid IP", "-"), "-"))
	}
	return strings.Join(text, "\t")
}

func (s *snapshot) summary(out io.Writer) error {
	closed, here := 0, 0
	for index := range s.pairs {
		if _, open := s.Ports[index]; !open {
			closed++
		}
	}
	for _, p := range s.Places {
		if p.Interface != 0 {
			here++
		}
	}
	reasons, total := map[string]uint64{}, uint64(0)
	for d, count := range s.drops {
		reasons[d.Reason] += count
		total += count
	}
	for comment, count := range s.filtered {
		if total += count; count > 0 {
			reasons[comment] += count
		}
	}
	dropped := []string{fmt.Sprint(total)}
	for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), strings.Compare(a, b))
	}) {
		dropped = append(dropped, fmt.Sprintf("%s %d", reason, reasons[reason]))
	}
	if s.unread != nil {
		dropped = append(dropped, "rules of the node not read")
	}
	return errors.Join(s.unread, columns(out, "", []string{
		row("Address of VXLAN packets:", s.Local),
		row("UDP port of VXLAN packets:", s.UDPPort),
		row("VXLAN device:", s.link(s.VXLAN)),
		row("Gateway to the outside:", s.link(s.Gateway)),
		row("Networks:", len(s.Networks)),
		fmt.Sprintf("Ports:\t%d open, %d closed", len(s.Ports), closed),
		fmt.Sprintf("Places:\t%d on this node, %d on other nodes", here, len(s.Places)-here),
		row("Nodes:", len(s.Wires)),
		row("Dropped packets:", strings.Join(dropped, ", ")),
	}, ""))
}

func (s *snapshot) listPorts(out io.Writer) error {
	var lines []string
	for _, index := range s.indexes() {
		port, open := s.Ports[index]
		owner := s.pairs[index].Owner
		pod, state, vni, network, mac, ip := s.pod(index), "open", fmt.Sprint(port.VNI), s.networks[port.VNI], port.MAC.String(), port.IP
		switch {
		case !open:
			state, vni, mac, network = "closed: not in the table", "", "", strings.Replace(owner.Network, ".", "/", 1)
		case s.links[index] == "":
			state = "deleted: only the table has it"
		case s.down[index]:
			state = "down"
		}
		lines = append(lines, row(s.link(index), index, vni, network, ip, mac, port.Transit, pod, owner.PodUID, owner.Interface, state))
	}
	return columns(out, "INTERFACE\tINDEX\tVNI\tNETWORK\tADDRESS\tMAC\tTRANSIT\tPOD\tPOD UID\tIN POD\tSTATE", lines,
		"There are no ports: no pod on this node is attached to an Overlay Network. pod2-cni attaches a pod when it starts.")
}

func (s *snapshot) listPlaces(out io.Writer) error {
	keys := slices.SortedFunc(maps.Keys(s.Places), func(a, b tables.PlaceKey) int {
		return cmp.Or(cmp.Compare(a.VNI, b.VNI), bytes.Compare(a.MAC[:], b.MAC[:]))
	})
	var lines []string
	for _, key := range keys {
		place := s.Places[key]
		where := fmt.Sprintf("node %s", place.Node)
		if place.Interface != 0 {
			where = s.describe(place.Interface)
		}
		lines = append(lines, row(key.VNI, place.IP, key.MAC, where))
	}
	return columns(out, "VNI\tADDRESS\tMAC\tWHERE", lines,
		"There are no places: the agent knows no pod on the Networks of this node. A Network is on a node that has one of its pods.")
}

func (s *snapshot) listNetworks(out io.Writer) error {
	var lines []string
	for _, vni := range slices.Sorted(maps.Keys(s.Networks)) {
		n, places, egress := s.Networks[vni], 0, "None"
		for key := range s.Places {
			if key.VNI == vni {
				places++
			}
		}
		if n.Egress == 1 {
			egress = "NAT"
		}
		lines = append(lines, row(vni, s.networks[vni], n.MTU, n.Gateway, dataplane.GatewayMAC(vni), egress, places))
	}
	return columns(out, "VNI\tNETWORK\tMTU\tGATEWAY\tGATEWAY MAC\tEGRESS\tPLACES", lines,
		"There are no Networks: no pod on this node is on an Overlay Network.")
}

func (s *snapshot) listNodes(out io.Writer) error {
	places := map[netip.Addr]int{}
	for _, p := range s.Places {
		places[p.Node.Addr()]++
	}
	var lines []string
	for _, node := range slices.SortedFunc(maps.Keys(s.Wires), netip.Addr.Compare) {
		lines = append(lines, row(node, s.link(s.Wires[node].Interface), places[node]))
	}
	return columns(out, "NODE\tINTERFACE\tPLACES", lines,
		"There are no other nodes: this node accepts VXLAN from nobody, and sends none.")
}

func (s *snapshot) listDrops(out io.Writer) error {
	keys := slices.SortedFunc(maps.Keys(s.drops), func(a, b bpf.Drop) int {
		return cmp.Or(cmp.Compare(s.drops[b], s.drops[a]), strings.Compare(a.Reason, b.Reason), cmp.Compare(a.VNI, b.VNI), cmp.Compare(a.Interface, b.Interface))
	})
	var lines []string
	for _, d := range keys {
		vni := ""
		if d.VNI != 0 {
			vni = fmt.Sprint(d.VNI)
		}
		lines = append(lines, row(s.drops[d], d.Reason, vni, s.link(d.Interface), s.pod(d.Interface), bpf.Meanings[d.Reason]))
	}
	for _, comment := range slices.Sorted(maps.Keys(s.filtered)) {
		if count := s.filtered[comment]; count > 0 {
			lines = append(lines, row(count, comment, "", "", "", dataplane.Meanings[comment]+", by the rules of the node"))
		}
	}
	hint := "No packet was dropped since the tables were made."
	if s.unread != nil {
		hint = "The programs dropped no packet since the tables were made."
	}
	return errors.Join(s.unread, columns(out, "PACKETS\tREASON\tVNI\tINTERFACE\tPOD\tMEANING", lines, hint))
}
