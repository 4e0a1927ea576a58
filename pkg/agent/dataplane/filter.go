package dataplane

import (
	"fmt"
	"slices"
	"strings"
)

// The hooks of the agent's chains.
const (
	rawPrerouting  = "type filter hook prerouting priority -300; policy accept;"
	hostInput      = "type filter hook input priority 0; policy accept;"
	hostForward    = "type filter hook forward priority 0; policy accept;"
	rawOutput      = "type filter hook output priority -300; policy accept;"
	routerInput    = "type filter hook input priority 0; policy drop;"
	routerForward  = "type filter hook forward priority 0; policy drop;"
	natPostrouting = "type nat hook postrouting priority 100; policy accept;"
)

// element of a set, joined from its parts.
func element(parts ...any) string {
	words := make([]string, len(parts))
	for i, part := range parts {
		words[i] = fmt.Sprint(part)
	}
	return strings.Join(words, " . ")
}

func newSet(name, kind string, elements []string) Set {
	slices.Sort(elements)
	return Set{Name: name, Type: kind, Elements: slices.Compact(elements)}
}

// routerTable lets packets out and answers back in, and nothing else.
func routerTable(n Network) Table {
	headers := 40 // IPv4 and TCP
	if n.CIDR.Addr().Is6() {
		headers = 60
	}
	// Packets from outside may exceed the Network's MTU, and the ICMP message that reports
	// this may get lost. So TCP gets a lower segment size at the start.
	forward := []string{fmt.Sprintf("tcp flags syn / syn,rst tcp option maxseg size set %d", n.MTU-headers)}
	if n.Egress {
		forward = append(forward,
			`iifname "lan" oifname "wan" accept`,
			`iifname "wan" oifname "lan" ct state established,related accept`)
	}
	return Table{Family: "inet", Name: TableName, Chains: []Chain{
		{"forward", routerForward, forward},
		{"input", routerInput, []string{
			`ct state established,related accept`,
			`meta l4proto icmp accept`,
			`meta l4proto ipv6-icmp accept`,
		}},
		{"postrouting", natPostrouting, []string{`oifname "wan" masquerade`}},
	}}
}
