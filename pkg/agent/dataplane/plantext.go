package dataplane

import (
	"fmt"
	"strings"
)

func (a AddNamespace) String() string { return "ip netns add " + a.Name }
func (a DelNamespace) String() string { return "ip netns del " + a.Name }
func (a DelLink) String() string      { return "ip link del " + a.Name }

func (a AddVeth) String() string {
	end := func(l Link) string {
		text := fmt.Sprintf("%s mtu %d", l.Name, l.MTU)
		if (l.MAC != MAC{}) {
			text += " address " + l.MAC.String()
		}
		return text
	}
	return fmt.Sprintf("ip link add %s type veth peer name %s netns %s", end(a.Link), end(a.Peer), a.Namespace)
}

// String is in the order of execution: a link is set up last.
func (a SetLink) String() string {
	is, want := a.Is, a.Want
	text := "ip link set " + want.Name
	for _, change := range []struct {
		differs bool
		words   string
	}{
		{is.Master != want.Master, "nomaster"},
		{want.MAC != MAC{} && is.MAC != want.MAC, "address " + want.MAC.String()},
		{is.MTU != want.MTU, fmt.Sprintf("mtu %d", want.MTU)},
		{is.AutoAddress != want.AutoAddress, "addrgenmode " + boolean(want.AutoAddress, "eui64", "none")},
		{is.Up != want.Up, boolean(want.Up, "up", "down")},
	} {
		if change.differs {
			text += " " + change.words
		}
	}
	return text
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
