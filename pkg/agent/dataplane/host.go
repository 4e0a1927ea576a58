package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Host is the state of a node's kernel, observed or wanted, as far as the agent manages it:
// the node's own network namespace, whose name is "", and those of the routers.
type Host []Namespace

// Namespace with this name; nil if there is none.
func (h Host) Namespace(name string) *Namespace {
	if i := slices.IndexFunc(h, func(n Namespace) bool { return n.Name == name }); i >= 0 {
		return &h[i]
	}
	return nil
}

// Namespace is a network namespace. The node's own, as read, has only the things that the
// agent owns by their name, and these: ports of the bridges of an earlier agent, and routes
// that the kernel made for the agent's links. No list has a thing twice.
type Namespace struct {
	Name      string
	Links     []Link
	Addresses []Address
	Routes    []Route
	Rules     []Rule
	Sysctls   []Sysctl
	Tables    []Table
}

// Link with this name; nil if there is none.
func (n *Namespace) Link(name string) *Link {
	if n == nil {
		return nil
	}
	if i := slices.IndexFunc(n.Links, func(l Link) bool { return l.Name == name }); i >= 0 {
		return &n.Links[i]
	}
	return nil
}

// KindVeth is the kind of the links that the agent makes.
const KindVeth = "veth"

// KindHardware is the kind of a link that no driver of virtual links made.
const KindHardware = "device"

// Link is a network interface.
type Link struct {
	Name, Kind string
	// MAC is zero in the desired state, which accepts any address that the kernel chose.
	MAC    MAC
	MTU    int
	Master string
	Up     bool
	// AutoAddress: the kernel gives the link an IPv6 address.
	AutoAddress bool
	// Peer of a veth: "namespace/name".
	Peer string
}

// Address of an interface. The kernel does not look for duplicates: a gateway has the same
// addresses on every node.
type Address struct {
	Dev    string
	Prefix netip.Prefix
	// Deaf: the route that the kernel put into the table local with the address is gone. The
	// host then neither accepts packets for the address nor answers for it. No wanted address
	// is deaf.
	Deaf bool
}

// Route by way of a gateway or, without one, to hosts on the link. The kernel makes a route
// of the second form with each address; for IPv4 that address is its Src.
type Route struct {
	Dst      netip.Prefix
	Via, Src netip.Addr
	Dev      string
	// More is all other properties, such as "metric 5". It is empty in the desired state.
	More string
}

// Rule selects a table of routes. The lowest Priority comes first.
type Rule struct {
	IPv6            bool
	Priority, Table uint32
	// More is all other properties, such as "from 10.0.0.0/8 iif lan".
	More string
}

// Sysctl has a name such as "net.ipv4.ip_forward".
type Sysctl struct{ Name, Value string }

// The sysctls that a namespace needs to route packets of a family.
const (
	forward4 = "net.ipv4.ip_forward"
	forward6 = "net.ipv6.conf.all.forwarding"
)

// Sysctls are the names whose values Read returns.
var Sysctls = []string{forward4, forward6}

// Table of nftables. Rules and elements are in the language of nft.
type Table struct {
	Family, Name string
	Sets         []Set
	Chains       []Chain
}

// Set has its elements sorted as text. An element of type "ipv4_addr . inet_service" is, for
// example,
//
//	10.0.0.1 . 6443
type Set struct {
	Name, Type string
	Elements   []string
}

// Chain has a hook such as "type filter hook input priority 0; policy accept;".
type Chain struct {
	Name, Hook string
	Rules      []string
}

// id of a table, as nft writes it.
func (t Table) id() string { return t.Family + " " + t.Name }

// String is the text of `nft list table`.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s {\n", t.id())
	for _, s := range t.Sets {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s\n", s.Name, s.Type)
		if len(s.Elements) > 0 {
			fmt.Fprintf(&b, "\t\telements = { %s }\n", strings.Join(s.Elements, ",\n\t\t\t     "))
		}
		b.WriteString("\t}\n")
	}
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		for _, line := range append([]string{c.Hook}, c.Rules...) {
			if line != "" {
				fmt.Fprintf(&b, "\t\t%s\n", line)
			}
		}
		b.WriteString("\t}\n")
	}
	return b.String() + "}\n"
}

// sameSkeleton says whether the tables differ at most in elements of sets.
func sameSkeleton(a, b Table) bool {
	return a.id() == b.id() &&
		slices.EqualFunc(a.Sets, b.Sets, func(a, b Set) bool { return a.Name == b.Name && a.Type == b.Type }) &&
		slices.EqualFunc(a.Chains, b.Chains, func(a, b Chain) bool {
			return a.Name == b.Name && a.Hook == b.Hook && slices.Equal(a.Rules, b.Rules)
		})
}

// Equal says whether two hosts have the same things in the same order.
func (h Host) Equal(other Host) bool {
	return slices.EqualFunc(h, other, func(a, b Namespace) bool {
		return a.Name == b.Name && slices.Equal(a.Links, b.Links) && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Routes, b.Routes) && slices.Equal(a.Rules, b.Rules) &&
			slices.Equal(a.Sysctls, b.Sysctls) &&
			slices.EqualFunc(a.Tables, b.Tables, func(a, b Table) bool {
				return sameSkeleton(a, b) && slices.EqualFunc(a.Sets, b.Sets, func(a, b Set) bool { return slices.Equal(a.Elements, b.Elements) })
			})
	})
}
