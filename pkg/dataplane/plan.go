package dataplane

import (
	"fmt"
	"net/netip"
	"strings"
)

// Plan is what is to be done to a kernel, in this order: first what concerns the whole
// node, which closes what is not to be open, then Network by Network. What stops one
// Network does not stop the next; what stops the node's part, Network 0, stops all.
type Plan []Step

// Step is one action in one namespace, "" being the node's own.
type Step struct {
	// Network is the VNI of the one that it is for, 0 for all.
	Network   int32
	Namespace string
	Action    Action
}

// Action is one of those below. Each is repeatable: what is there already, or is gone
// already, is as good as done.
type Action interface {
	fmt.Stringer
	kind() string
}

// Kinds of actions.
var Kinds = []string{"namespace", "link", "address", "route", "sysctl", "fdb", "neighbour", "table", "element"}

// The actions.
type (
	// AddNamespace makes an empty one.
	AddNamespace struct{ Name string }
	// DelNamespace removes one, and all that is in it.
	DelNamespace struct{ Name string }
	// AddLink makes a link that is down, with what cannot be changed later, its MTU and
	// master; Peer is the other end of a veth.
	AddLink struct {
		Link Link
		Peer *Peer
	}
	// SetLink changes what differs.
	SetLink struct{ Is, Want Link }
	// DelLink removes a link, and the other end of a veth with it.
	DelLink struct{ Name string }

	// AddAddress to a link.
	AddAddress struct{ Address }
	// DelAddress from a link.
	DelAddress struct{ Address }
	// AddRoute where there is none to that destination.
	AddRoute struct{ Route }
	// DelRoute of that gateway.
	DelRoute struct{ Route }
	// ReplaceFDB takes the place of any entry of the link for that MAC address.
	ReplaceFDB struct{ FDB }
	// DelFDB is of that destination only.
	DelFDB struct{ FDB }
	// ReplaceNeighbour takes the place of any for that address.
	ReplaceNeighbour struct{ Neighbour }
	// DelNeighbour of that address.
	DelNeighbour struct{ Neighbour }
	// SetSysctl of the namespace.
	SetSysctl struct{ Sysctl }

	// ReplaceTable puts a table in the place of the one of that name, if there is one, at
	// once.
	ReplaceTable struct{ Table Table }
	// DelTable and all that is in it.
	DelTable struct{ Family, Name string }
	// ChangeElements of the sets of a table, all at once.
	ChangeElements struct {
		Family, Table string
		Changes       []ElementChange
	}
)

// Peer of a veth.
type Peer struct {
	Namespace string
	Link      Link
}

// ElementChange of one set: Type and Counter are the set's.
type ElementChange struct {
	Set, Type string
	Counter   bool
	Del, Add  []string
}

func (AddNamespace) kind() string     { return "namespace" }
func (DelNamespace) kind() string     { return "namespace" }
func (AddLink) kind() string          { return "link" }
func (SetLink) kind() string          { return "link" }
func (DelLink) kind() string          { return "link" }
func (AddAddress) kind() string       { return "address" }
func (DelAddress) kind() string       { return "address" }
func (AddRoute) kind() string         { return "route" }
func (DelRoute) kind() string         { return "route" }
func (SetSysctl) kind() string        { return "sysctl" }
func (ReplaceFDB) kind() string       { return "fdb" }
func (DelFDB) kind() string           { return "fdb" }
func (ReplaceNeighbour) kind() string { return "neighbour" }
func (DelNeighbour) kind() string     { return "neighbour" }
func (ReplaceTable) kind() string     { return "table" }
func (DelTable) kind() string         { return "table" }
func (ChangeElements) kind() string   { return "element" }

// Kind of the step's action, of Kinds.
func (s Step) Kind() string { return s.Action.kind() }

// String has one action a line, in the order in which they are done.
func (p Plan) String() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteString(step.String() + "\n")
	}
	return b.String()
}

// String says it in the words of iproute2 and nft, which do the same by hand.
func (s Step) String() string {
	text := s.Action.String()
	if s.Namespace == "" {
		return text
	}
	if rest, ok := strings.CutPrefix(text, "ip "); ok {
		return "ip -n " + s.Namespace + " " + rest
	}
	return "ip netns exec " + s.Namespace + " " + text
}

func (a AddNamespace) String() string { return "ip netns add " + a.Name }
func (a DelNamespace) String() string { return "ip netns del " + a.Name }
func (a DelLink) String() string      { return "ip link del " + a.Name }

func (a AddLink) String() string {
	l := a.Link
	text := fmt.Sprintf("ip link add %s mtu %d", l.Name, l.MTU)
	if (l.MAC != MAC{}) {
		text += " address " + l.MAC.String()
	}
	if l.Master != "" {
		text += " master " + l.Master
	}
	switch text += " type " + l.Kind; l.Kind {
	case KindBridge:
		text += " mcast_snooping " + boolean(l.Snooping, "1", "0")
	case KindVXLAN:
		text += fmt.Sprintf(" id %d local %s dstport %d %s", l.VXLAN.VNI, l.VXLAN.Local, l.VXLAN.UDPPort, boolean(l.VXLAN.Learning, "learning", "nolearning"))
	}
	if p := a.Peer; p != nil {
		text += fmt.Sprintf(" peer name %s mtu %d", p.Link.Name, p.Link.MTU)
		if (p.Link.MAC != MAC{}) {
			text += " address " + p.Link.MAC.String()
		}
		text += " netns " + p.Namespace
	}
	return text
}

// String is in the order in which it is done: a port has its flags before it is up.
func (a SetLink) String() string {
	is, want := a.Is, a.Want
	var enslave, attributes, flags []string
	add := func(list *[]string, differ bool, words string) {
		if differ {
			*list = append(*list, words)
		}
	}
	add(&attributes, want.MAC != MAC{} && is.MAC != want.MAC, "address "+want.MAC.String())
	add(&attributes, is.MTU != want.MTU, fmt.Sprintf("mtu %d", want.MTU))
	add(&attributes, is.AutoAddress != want.AutoAddress, "addrgenmode "+boolean(want.AutoAddress, "eui64", "none"))
	add(&attributes, is.Up != want.Up, boolean(want.Up, "up", "down"))
	add(&attributes, is.Snooping != want.Snooping, "type bridge mcast_snooping "+boolean(want.Snooping, "1", "0"))
	if is.Master != want.Master {
		enslave = []string{boolean(want.Master == "", "nomaster", "master "+want.Master)}
		is.Port = PortDefault
	}
	for _, f := range []struct {
		name     string
		is, want bool
	}{
		{"learning", is.Port.Learning, want.Port.Learning},
		{"neigh_suppress", is.Port.Suppress, want.Port.Suppress},
		{"flood", is.Port.Flood, want.Port.Flood},
		{"mcast_flood", is.Port.MulticastFlood, want.Port.MulticastFlood},
		{"bcast_flood", is.Port.BroadcastFlood, want.Port.BroadcastFlood},
		{"isolated", is.Port.Isolated, want.Port.Isolated},
	} {
		add(&flags, f.is != f.want, f.name+" "+boolean(f.want, "on", "off"))
	}
	var commands []string
	add(&commands, len(enslave) > 0, "ip link set "+want.Name+" "+strings.Join(enslave, " "))
	add(&commands, len(flags) > 0, "bridge link set dev "+want.Name+" "+strings.Join(flags, " "))
	add(&commands, len(attributes) > 0, "ip link set "+want.Name+" "+strings.Join(attributes, " "))
	return strings.Join(commands, "; ")
}

func boolean(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

func (a Address) text(verb string) string {
	text := fmt.Sprintf("ip addr %s %s dev %s", verb, a.Prefix, a.Dev)
	if a.Prefix.Addr().Is6() {
		text += " nodad"
	}
	return text
}
func (a AddAddress) String() string { return a.text("add") }
func (a DelAddress) String() string { return a.text("del") }

func (r Route) text(verb string) string {
	family := ""
	if r.Via.Is6() {
		family = "-6 "
	}
	return fmt.Sprintf("ip %sroute %s %s via %s dev %s", family, verb, boolean(r.Dst.Bits() == 0, "default", r.Dst.String()), r.Via, r.Dev)
}
func (a AddRoute) String() string { return a.text("add") }
func (a DelRoute) String() string { return a.text("del") }

func (f FDB) text(verb string) string {
	if f.Dst != (netip.Addr{}) {
		return fmt.Sprintf("bridge fdb %s %s dev %s dst %s self static", verb, f.MAC, f.Dev, f.Dst)
	}
	return fmt.Sprintf("bridge fdb %s %s dev %s master static%s", verb, f.MAC, f.Dev, boolean(f.Sticky, " sticky", ""))
}
func (a ReplaceFDB) String() string { return a.text("replace") }
func (a DelFDB) String() string     { return a.text("del") }

func (n Neighbour) text(verb string) string {
	return fmt.Sprintf("ip neigh %s %s lladdr %s dev %s nud permanent", verb, n.IP, n.MAC, n.Dev)
}
func (a ReplaceNeighbour) String() string { return a.text("replace") }
func (a DelNeighbour) String() string     { return a.text("del") }

func (a SetSysctl) String() string { return "sysctl -w " + a.Name + "=" + a.Value }

func (a ReplaceTable) String() string {
	rules, elements := 0, 0
	for _, c := range a.Table.Chains {
		rules += len(c.Rules)
	}
	for _, s := range a.Table.Sets {
		elements += len(s.Elements)
	}
	return fmt.Sprintf("nft replace table %s: %d chains, %d rules, %d sets, %d elements", a.Table.id(), len(a.Table.Chains), rules, len(a.Table.Sets), elements)
}
func (a DelTable) String() string { return "nft delete table " + a.Family + " " + a.Name }

func (a ChangeElements) String() string {
	var commands []string
	for _, c := range a.Changes {
		for _, list := range []struct {
			verb     string
			elements []string
		}{{"delete", c.Del}, {"add", c.Add}} {
			if len(list.elements) > 0 {
				commands = append(commands, fmt.Sprintf("%s element %s %s %s { %s }", list.verb, a.Family, a.Table, c.Set, strings.Join(list.elements, ", ")))
			}
		}
	}
	return "nft " + strings.Join(commands, "; ")
}
