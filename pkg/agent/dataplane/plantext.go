package dataplane

import (
	"fmt"
	"strings"
)

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

// String is in the order of execution: a port gets its flags before it is up, and can be
// unblocked only after that.
func (a SetLink) String() string {
	is, want := a.Is, a.Want
	var enslave, attributes, bridge, flags []string
	add := func(list *[]string, differ bool, words string) {
		if differ {
			*list = append(*list, words)
		}
	}
	add(&attributes, want.MAC != MAC{} && is.MAC != want.MAC, "address "+want.MAC.String())
	add(&attributes, is.MTU != want.MTU, fmt.Sprintf("mtu %d", want.MTU))
	add(&attributes, is.AutoAddress != want.AutoAddress, "addrgenmode "+boolean(want.AutoAddress, "eui64", "none"))
	add(&attributes, is.Up != want.Up, boolean(want.Up, "up", "down"))
	add(&bridge, is.Snooping != want.Snooping, "mcast_snooping "+boolean(want.Snooping, "1", "0"))
	add(&bridge, is.SpanningTree != want.SpanningTree, "stp_state "+boolean(want.SpanningTree, "1", "0"))
	add(&attributes, len(bridge) > 0, "type bridge "+strings.Join(bridge, " "))
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
	add(&commands, is.Port.Blocked && !want.Port.Blocked, "bridge link set dev "+want.Name+" state forwarding")
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
	text := fmt.Sprintf("ip %sroute %s %s", boolean(r.Dst.Addr().Is6(), "-6 ", ""), verb, boolean(r.Dst.Bits() == 0, "default", r.Dst.String()))
	for _, word := range []struct {
		given bool
		words string
	}{{r.Via.IsValid(), "via " + r.Via.String()}, {r.Dev != "", "dev " + r.Dev}, {r.Src.IsValid(), "src " + r.Src.String()}, {r.More != "", r.More}} {
		if word.given {
			text += " " + word.words
		}
	}
	return text
}
func (a AddRoute) String() string    { return a.text("add") }
func (a AppendRoute) String() string { return a.text("append") }
func (a DelRoute) String() string    { return a.text("del") }

func (r Rule) text(verb string) string {
	return fmt.Sprintf("ip %srule %s pref %d %s lookup %d", boolean(r.IPv6, "-6 ", ""), verb, r.Priority, boolean(r.More == "", "from all", r.More), r.Table)
}
func (a AddRule) String() string { return a.text("add") }
func (a DelRule) String() string { return a.text("del") }

func (f FDB) text(verb string) string {
	text := fmt.Sprintf("bridge fdb %s %s dev %s", verb, f.MAC, f.Dev)
	if !f.OfVXLAN() {
		return text + " master static" + boolean(f.Sticky, " sticky", "")
	}
	if f.Dst.IsValid() {
		text += " dst " + f.Dst.String()
	}
	for _, own := range []struct {
		word  string
		value uint32
	}{{" nhid ", f.Own.NextHop}, {" port ", uint32(f.Own.UDPPort)}, {" vni ", f.Own.VNI}, {" via if", f.Own.Interface}} {
		if own.value != 0 {
			text += fmt.Sprint(own.word, own.value)
		}
	}
	return text + " self static"
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
