package dataplane

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/ipam"
)

// state reads the view of node n1, one line for each thing:
//
//	node n1 10.0.0.1 fd0a::1
//	network blue 1001 192.168.0.0/16     gateway by default; also gateway=, mtu=1400, none (egress), ns=other
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
			list := &s.Nodes
			if plain[0] == s.Node {
				list = &s.Self
			}
			for _, a := range plain[1:] {
				*list = append(*list, netip.MustParseAddr(a))
			}
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
		case "api":
			s.APIServers = append(s.APIServers, netip.MustParseAddrPort(plain[0]))
		default:
			t.Fatalf("unknown word: %s", line)
		}
	}
	return s
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimLeft(strings.ReplaceAll(want, "\n\t\t", "\n"), "\n\t"); strings.TrimRight(got, "\n\t") != strings.TrimRight(want, "\n\t") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
