//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// tables are all tables of dataplane for a node with a Network of each kind.
func tables(t *testing.T) []dataplane.Table {
	t.Helper()
	s := dataplane.State{Node: "n1", UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16"),
		Nodes:      []dataplane.Node{{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd0a::1")}}},
		Denied:     []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00::/8")},
		APIServers: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:6443"), netip.MustParseAddrPort("[fd0a::1]:6443")},
		Host:       dataplane.Host{{Links: []dataplane.Link{{Name: "veth1", Kind: "veth", Master: "nw1"}, {Name: "veth2", Kind: "veth", Master: "nw2"}, {Name: "veth3", Kind: "veth", Master: "nw2"}}}},
		Ports:      []dataplane.Port{{Interface: "veth1", PodUID: "a"}, {Interface: "veth2", PodUID: "b"}}}
	for i, cidr := range []string{"192.168.0.0/16", "fd00::/64"} {
		p := netip.MustParsePrefix(cidr)
		n := dataplane.Network{Namespace: "default", Name: fmt.Sprint(i), VNI: int32(i + 1), CIDR: p, Gateway: p.Addr().Next(), MTU: 1450, Egress: true}
		s.Networks = append(s.Networks, n)
		s.Pods = append(s.Pods, dataplane.Pod{Namespace: "default", UID: []dataplane.Port{s.Ports[0], s.Ports[1]}[i].PodUID, Node: "n1",
			Attachments: []dataplane.Attachment{{Network: n.Name, IP: n.Gateway.Next(), MAC: dataplane.MAC{2, 0, 0, 0, 0, byte(i)}}}})
	}
	want, _, ok := dataplane.Want(s)
	if !ok {
		t.Fatal("nothing is wanted")
	}
	var all []dataplane.Table
	for _, ns := range want {
		all = append(all, ns.Tables...)
	}
	if len(all) != 4 {
		t.Fatalf("%d tables", len(all))
	}
	return all
}

// Packages dataplane and kernel must agree: every rule and hook compiles, and is recognized
// by the text that is stored with it, but not after a change.
func TestRulesOfDataplane(t *testing.T) {
	for _, table := range tables(t) {
		family := families[table.Family]
		for _, chain := range table.Chains {
			c, err := newChain(&nftables.Table{Family: family}, chain)
			if err != nil {
				t.Error(err)
			} else if got := hookText(c); got != chain.Hook {
				t.Errorf("chain %s: got %q, want %q", chain.Name, got, chain.Hook)
			}
			for _, text := range chain.Rules {
				exprs, err := compile(family, text)
				if err != nil {
					t.Error(err)
					continue
				}
				rule := &nftables.Rule{Exprs: exprs, UserData: userdata.Append(userdata.AppendString(nil, userdata.TypeComment, "x"), textOfRule, []byte(text))}
				if got := ruleText(family, rule); got != text {
					t.Errorf("got %q, want %q", got, text)
				}
				rule.Exprs = exprs[1:]
				if got := ruleText(family, rule); got != "changed: "+text {
					t.Errorf("changed, got %q", got)
				}
				if len(rule.UserData) > 256 {
					t.Errorf("%q is longer than a rule can store", text)
				}
			}
		}
		for _, set := range table.Sets {
			var elements []nftables.SetElement
			for _, text := range set.Elements {
				key, err := elementKey(set.Type, text)
				if err != nil {
					t.Errorf("set %s: %s: %v", set.Name, text, err)
				}
				elements = append(elements, nftables.SetElement{Key: key})
			}
			if got, want := strings.Join(elementTexts(set.Type, elements), "\n"), strings.Join(set.Elements, "\n"); got != want || want == "" {
				t.Errorf("set %s: got\n%s\nwant\n%s", set.Name, got, want)
			}
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, rule := range []string{"nonsense", "iifname", "ip saddr blue accept", "iifname . @ports drop", "tcp option maxseg size set x", "@th,96,24 >= 16777216 drop", "ether saddr"} {
		if exprs, err := compile(nftables.TableFamilyINet, rule); err == nil {
			t.Errorf("%q is %v", rule, exprs)
		}
	}
	for kind, text := range map[string]string{"ifname": "eth0", "ether_addr": "x", "ipv4_addr": "fd00::1", "ifname . ipv4_addr": `"eth0"`, "inet_service": "-1", "integer": "16777216", "ipv6_addr": "1.2.3.4"} {
		if key, err := elementKey(kind, text); err == nil {
			t.Errorf("%s %s is %x", kind, text, key)
		}
	}
}

// An error names the problem, and wraps a cause only if there is one.
func TestElementOfTheOtherFamily(t *testing.T) {
	_, err := elementKey("ipv4_addr", "fd00::1")
	if got, want := fmt.Sprint(err), "fd00::1 is not of type ipv4_addr: it belongs to the other family"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// User data of other programs may hold any bytes.
func TestUserData(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {0, 5, 1}, {byte(textOfRule), 200}, {1, 0, byte(textOfRule), 1}} {
		if got := ruleText(nftables.TableFamilyINet, &nftables.Rule{UserData: b}); got != "not ours" {
			t.Errorf("%v: %q", b, got)
		}
	}
}

// The file that libcni v1.3.0 writes for Multus v4.2.3, shortened.
const cached = `{"kind":"cniCacheV1","containerId":"9c1f","config":"e30=","ifName":"net1","networkName":"default.blue","netns":"/var/run/netns/cni-1",
"cniArgs":[["IgnoreUnknown","true"],["K8S_POD_NAMESPACE","default"],["K8S_POD_NAME","a"],["K8S_POD_INFRA_CONTAINER_ID","9c1f"],["K8S_POD_UID","u-a"]],
"capabilityArgs":{"ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02"},
"result":{"cniVersion":"1.0.0","dns":{},"interfaces":[{"mac":"0e:00:5e:00:03:e9","name":"nw1001"},{"mac":"5e:11:00:00:00:01","name":"veth5e11"},
{"mac":"0a:58:c0:a8:00:02","name":"net1","sandbox":"/var/run/netns/cni-1"}],"ips":[{"address":"192.168.0.2/16","interface":2}]}}`

func TestParseResult(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"of Multus", cached, "[{veth5e11 on nw1001 of u-a, net1 in /var/run/netns/cni-1}]"},
		{"being written", cached[:len(cached)/2], "[]"},
		{"of another kind", strings.Replace(cached, "cniCacheV1", "cniCacheV9", 1), "[]"},
		{"of no pod", strings.Replace(cached, "K8S_POD_UID", "X", 1), "[]"},
		{"empty", "", "[]"},
	} {
		if got := portsText(parseResult([]byte(tt.in))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func portsText(ports []dataplane.Port) string {
	words := []string{}
	for _, p := range ports {
		words = append(words, fmt.Sprintf("{%s on %s of %s, %s in %s}", p.Interface, p.Bridge, p.PodUID, p.Inner, p.Sandbox))
	}
	return fmt.Sprint(words)
}

func TestPorts(t *testing.T) {
	dir := t.TempDir()
	p := NewPorts([]string{filepath.Join(dir, "missing"), dir})
	read := func(want string) {
		t.Helper()
		ports, err := p.Read()
		if got := portsText(ports); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read("[]")
	write("default.blue-9c1f-net1", cached)
	write("other", "no JSON")
	read("[{veth5e11 on nw1001 of u-a, net1 in /var/run/netns/cni-1}]")
	write("default.blue-9c1f-net1", strings.Replace(cached, "veth5e11", "veth99999", 1))
	read("[{veth99999 on nw1001 of u-a, net1 in /var/run/netns/cni-1}]")
	if err := os.Remove(filepath.Join(dir, "default.blue-9c1f-net1")); err != nil {
		t.Fatal(err)
	}
	read("[]")
}
