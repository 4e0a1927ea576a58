//go:build linux && kernel

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

// view reads the maps as another process does.
func view(t testing.TB, dir string) tables.View {
	t.Helper()
	m, err := Open(dir)
	must(t, err)
	defer m.Close()
	v := tables.View{Name: func(index uint32) string { return fmt.Sprintf("interface %d", index) }, Exit: func(netip.Addr) tables.Exit { return tables.Exit{Interface: 2} }}
	v.Tables, v.Wires, err = m.Read()
	must(t, err)
	v.Config, err = m.Config()
	must(t, err)
	return v
}

// fate of a packet: the pod asks for its neighbour, and sends it to the answer. Without an answer
// it sends it to the gateway if the trace says so.
func (r *runner) fate(w world, to netip.Addr, trace string) string {
	source, etherType := w.port.IP.Addr(), uint16(unix.ETH_P_IPV6)
	if source.Is4() && to.Is6() {
		source = linkLocal(w.port.MAC)
	}
	question := frame(dataplane.MAC{0x33, 0x33}, w.port.MAC, etherType, ipv6(source, to, 58, append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, asBytes(to)...)...)...)
	packet := ipv6(source, to, 17, make([]byte, 32)...)
	if to.Is4() {
		if source.Is6() {
			source = addr("192.0.2.1")
		}
		etherType, packet = unix.ETH_P_IP, udp4(source, to)
		question = frame(mac("ff:ff:ff:ff:ff:ff"), w.port.MAC, unix.ETH_P_ARP, arp(1, w.port.MAC, source, to)...)
	}
	next := mac("ff:ff:ff:ff:ff:ff") // of a group
	if !to.IsMulticast() && to != addr("255.255.255.255") {
		verdict, answer := r.run("from_port", question, 0)
		switch {
		case verdict == "answer":
			next = dataplane.MAC(answer[6:12])
			if !strings.Contains(trace, "has MAC "+next.String()) {
				r.Errorf("%s has MAC %s, but the trace is\n%s", to, next, trace)
			}
		case strings.Contains(trace, "Route: "):
			next = dataplane.GatewayMAC(w.vni)
		default:
			return verdict
		}
	}
	verdict, _ := r.run("from_port", frame(next, w.port.MAC, etherType, packet...), 0)
	return verdict
}

func asBytes(a netip.Addr) []byte { b := a.As16(); return b[:] }

// Each trace ends as the programs do with a packet.
func TestTraceIsWhatProgramsDo(t *testing.T) {
	seen := map[string]int{}
	for _, v6 := range []bool{false, true} {
		{
			for _, change := range []func(w *world){
				func(*world) {},
				func(w *world) { w.network.Egress = false },
				func(w *world) { w.gateway = 0 },
				func(w *world) { p := w.ports[loopback]; p.Transit = tables.Address{}; w.ports[loopback] = p },
				func(w *world) { w.network.Gateway = netip.Addr{} },
				func(w *world) { w.network.Gateway = addr("fd12::1:0:0") }, // its last four bytes are zero
				func(w *world) { w.other = addr("fd09::2") },
				func(w *world) { w.node = netip.Addr{} },
				func(w *world) { delete(w.ports, loopback) },
				func(w *world) { w.network = dataplane.Network{CIDR: w.network.CIDR}; w.vni++ },
			} {
				w := newWorld(v6)
				was := w.other
				change(&w)
				for key, place := range w.places {
					if place.Node == tables.AddressOf(was) {
						place.Node = tables.AddressOf(w.other)
						w.places[key] = place
					}
				}
				dir := bpffs(t)
				p, err := Load(dir)
				must(t, err)
				w.write(t, p)
				r, v := &runner{TB: t, p: p}, view(t, dir)
				for _, to := range destinations(w) {
					if to == w.port.IP.Addr() {
						continue // such a packet does not reach the programs
					}
					lines := v.Trace(loopback, to)
					trace := strings.Join(lines, "\n")
					got, want := end(lines), r.fate(w, to, trace)
					seen[want]++
					if got != want {
						t.Errorf("to %s from %+v: %s, but the trace is\n%s", to, w.port, want, trace)
					}
				}
				p.Close()
			}
		}
	}
	for _, verdict := range []string{"deliver", "send", "stranger", "unknown", "arp", "multicast", "nat", "egress"} {
		if seen[verdict] == 0 {
			t.Errorf("no packet had the fate %q", verdict)
		}
	}
}

// end of a trace in the words of runner.run, for which the VXLAN device is another interface.
func end(trace []string) string {
	sentence := trace[len(trace)-1]
	if reason, ok := strings.CutPrefix(sentence, "Dropped ("); ok {
		reason, _, _ = strings.Cut(reason, ")")
		return reason
	}
	switch {
	case strings.HasPrefix(trace[max(0, len(trace)-2)], "Rules of the node: the packet reaches them by interface 8 as "):
		return "nat"
	case strings.HasPrefix(sentence, "Sent by interface 9,"), strings.HasPrefix(sentence, "Delivered by "):
		return "deliver"
	case strings.HasPrefix(sentence, "Sent by "):
		return "send"
	}
	return "multicast" // the question whether its own address is free
}

// destinations are the addresses of all places and of the gateway, those that their MAC addresses
// make, others with the same last four bytes, and some that nobody has.
func destinations(w world) []netip.Addr {
	all := []netip.Addr{addr("203.0.113.9"), addr("2001:db8::9"), addr("fe80::9"), addr("224.0.0.9"), addr("ff02::9"), addr("255.255.255.255"),
		addr("192.168.0.1"), addr("fd12::1"), addr("192.168.0.3"), addr("fd12::3"), addr("2001:db8::3"), addr("2001:db8::c0a8:3"), linkLocal(dataplane.GatewayMAC(70001))}
	for key, place := range w.places {
		all = append(all, place.IP.Addr(), linkLocal(key.MAC))
	}
	if w.network.Gateway.IsValid() {
		all = append(all, w.network.Gateway)
	}
	return all
}

// An error of Open names the missing maps.
func TestOpenWithoutMaps(t *testing.T) {
	dir := bpffs(t)
	if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "has not run on this node since it booted") {
		t.Error(err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "v99"), 0o700))
	if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the release that made them") {
		t.Error(err)
	}
}

// Open gives no right to write.
func TestOpenOnlyReads(t *testing.T) {
	dir := bpffs(t)
	p, err := Load(dir)
	must(t, err)
	defer p.Close()
	m, err := Open(dir)
	must(t, err)
	defer m.Close()
	if err := m.maps["nodes"].Put(tables.AddressOf(addr("10.9.0.1")), tables.Wire{Interface: 1}); !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}

// The readers return the entries that were set.
func TestNodesAndConfig(t *testing.T) {
	dir := bpffs(t)
	p, err := Load(dir)
	must(t, err)
	defer p.Close()
	for _, want := range []tables.Config{{}, {Local: addr("10.9.0.1"), VXLAN: 9, UDPPort: 4789, Gateway: 8}, {Local: addr("fd09::1"), VXLAN: 9, UDPPort: 4789}} {
		must(t, p.SetConfig(want))
		if got, err := p.Config(); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	must(t, setNode(p, addr("10.9.0.2"), tables.Wire{Interface: 2, Direct: 1}))
	must(t, setNode(p, addr("fd09::2"), tables.Wire{Interface: 3}))
	nodes, err := p.Nodes()
	if must(t, err); len(nodes) != 2 || nodes[addr("10.9.0.2")] != (tables.Wire{Interface: 2, Direct: 1}) || nodes[addr("fd09::2")] != (tables.Wire{Interface: 3}) {
		t.Error(nodes)
	}
}
