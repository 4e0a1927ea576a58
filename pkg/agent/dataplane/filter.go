package dataplane

import (
	"fmt"
	"slices"
	"strconv"
)

// The hooks of our chains. What bridges see first, before they learn anything, is what
// a port may send.
const (
	bridgePrerouting = "type filter hook prerouting priority -300; policy accept;"
	bridgeForward    = "type filter hook forward priority -300; policy accept;"
	bridgeInput      = "type filter hook input priority -300; policy accept;"
	rawPrerouting    = "type filter hook prerouting priority -300; policy accept;"
	hostInput        = "type filter hook input priority 0; policy accept;"
	hostForward      = "type filter hook forward priority 0; policy accept;"
	rawOutput        = "type filter hook output priority -300; policy accept;"
	routerInput      = "type filter hook input priority 0; policy drop;"
	routerForward    = "type filter hook forward priority 0; policy drop;"
	natPostrouting   = "type nat hook postrouting priority 100; policy accept;"
)

// element of a set, of its parts.
func element(parts ...any) string {
	text := ""
	for i, part := range parts {
		if i > 0 {
			text += " . "
		}
		if name, ok := part.(string); ok {
			text += strconv.Quote(name)
		} else {
			text += fmt.Sprint(part)
		}
	}
	return text
}

func newSet(name, kind string, elements []string) Set {
	slices.Sort(elements)
	return Set{Name: name, Type: kind, Elements: slices.Compact(elements)}
}

func counting(s Set) Set {
	s.Counter = true
	return s
}

// routerTable lets packets out, answers back, and nothing else.
func routerTable(n Network) Table {
	headers := 40 // of IPv4 and TCP
	if n.CIDR.Addr().Is6() {
		headers = 60
	}
	// What comes from outside may be larger than the Network takes, and the message that
	// says so may be lost on its way.
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
