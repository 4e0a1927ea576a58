package dataplane

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/network/multus"
)

// state reads the view of node n1, one line for each thing:
//
//	node n1 10.0.0.1 fd0a::1
//	network blue 1001 192.168.0.0/16                  gateway by default; also gateway=, mtu=1400, none (egress), ns=other
//	pod a n1 blue=192.168.0.2/16 green=10.1.0.2       with the published prefix, if it matters; also uid=, created=5, mac= (of all), ns=other
//	cni veth1 a                                       the port of that pod (UID u-a), net1 inside; also made=5, bridge=nw1001, sandbox=/run/netns/cni-a
//	api 10.0.0.1:6443
func state(t testing.TB, lines ...string) State {
	t.Helper()
	s := State{Node: "n1", UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16")}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		options := map[string]string{}
		var plain []string
		for _, w := range words[1:] {
			if key, value, ok := strings.Cut(w, "="); ok {
				options[key] = value
			} else {
				plain = append(plain, w)
			}
		}
		namespace := "default"
		if ns := options["ns"]; ns != "" {
			namespace = ns
			delete(options, "ns")
		}
		switch words[0] {
		case "node":
			n := Node{Name: plain[0]}
			for _, a := range plain[1:] {
				n.Addresses = append(n.Addresses, netip.MustParseAddr(a))
			}
			s.Nodes = append(s.Nodes, n)
		case "network":
			vni, err := strconv.Atoi(plain[1])
			if err != nil {
				t.Fatal(err)
			}
			n := Network{Namespace: namespace, Name: plain[0], VNI: int32(vni), CIDR: netip.MustParsePrefix(plain[2]), MTU: 1450, Egress: !slices.Contains(plain, "none")}
			n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
			if a := options["gateway"]; a != "" {
				n.Gateway = netip.MustParseAddr(a)
			}
			if m := options["mtu"]; m != "" {
				n.MTU, _ = strconv.Atoi(m)
			}
			s.Networks = append(s.Networks, n)
		case "pod":
			s.Pods = append(s.Pods, newPod(t, namespace, plain[0], plain[1], options))
		case "cni":
			made, _ := strconv.Atoi(options["made"])
			s.Ports = append(s.Ports, Port{plain[0], options["bridge"], types.UID("u-" + plain[1]), time.Unix(int64(made), 0), options["sandbox"], "net1"})
		case "api":
			s.APIServers = append(s.APIServers, netip.MustParseAddrPort(plain[0]))
		default:
			t.Fatalf("unknown word: %s", line)
		}
	}
	return s
}

func newPod(t testing.TB, namespace, name, node string, options map[string]string) Pod {
	t.Helper()
	p := Pod{Namespace: namespace, Name: name, UID: types.UID("u-" + name), Node: node}
	var wantedMAC string
	for key, value := range options {
		switch key {
		case "uid":
			p.UID = types.UID(value)
		case "created":
			seconds, _ := strconv.Atoi(value)
			p.Created = time.Unix(int64(seconds), 0)
		case "mac":
			wantedMAC = value
		default:
			address, length, _ := strings.Cut(value, "/")
			bits, _ := strconv.Atoi(length)
			p.Attachments = append(p.Attachments, Attachment{Network: key, IP: netip.MustParseAddr(address), Bits: bits})
		}
	}
	for i := range p.Attachments {
		mac, err := ParseMAC(ipam.MAC(p.Attachments[i].IP))
		if wantedMAC != "" {
			mac, err = ParseMAC(wantedMAC)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Attachments[i].MAC = mac
	}
	slices.SortFunc(p.Attachments, func(a, b Attachment) int { return strings.Compare(a.Network, b.Network) })
	return p
}

// plug does the work of CNI: it attaches a port to a bridge, and makes the bridge if needed.
func plug(h Host, name string, vni int32) Host {
	h = clone(h)
	if h.Namespace("") == nil {
		h = append(Host{{}}, h...)
	}
	host := h.Namespace("")
	if host.Link(multus.Bridge(vni)) == nil {
		host.Links = append(host.Links, Link{Name: multus.Bridge(vni), Kind: KindBridge, MAC: MAC{0x5e, 1}, MTU: 1450, Up: true, AutoAddress: true, Snooping: true, Port: PortDefault})
	}
	host.Links = append(host.Links, Link{Name: name, Kind: KindVeth, MAC: MAC{0x5e, 2}, MTU: 1450, Up: true, AutoAddress: true, Master: multus.Bridge(vni), Port: PortDefault})
	return h
}

// decide returns the plan for the node and the report.
func decide(t testing.TB, s State) (Plan, Report) {
	t.Helper()
	want, report, ok := Want(s)
	if !ok {
		return nil, report
	}
	return Diff(s.Host, want), report
}

// settle lets the kernel execute the plan, and checks that nothing is left to do.
func settle(t testing.TB, s *State) {
	t.Helper()
	p, _ := decide(t, *s)
	s.Host = play(t, s.Host, p)
	if p, _ := decide(t, *s); len(p) > 0 {
		t.Fatalf("steps are left:\n%s", p)
	}
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimLeft(strings.ReplaceAll(want, "\n\t\t", "\n"), "\n\t"); strings.TrimRight(got, "\n\t") != strings.TrimRight(want, "\n\t") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
