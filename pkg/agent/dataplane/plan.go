package dataplane

import (
	"fmt"
	"strings"
)

// Plan is the list of steps for a kernel, in order. The steps for the whole node come first:
// they close every path that must not be open. Then it proceeds Network by Network. If a
// step of one Network fails, the next Network still gets its steps. If a step of the node,
// Network 0, fails, all others are skipped.
type Plan []Step

// Step is one action in one namespace; "" is the node's own.
type Step struct {
	// Network is the VNI that the step is for; 0 is the node.
	Network   int32
	Namespace string
	Action    Action
}

// Action is one of the types below. Each can be repeated: to add a thing that exists, or to
// remove one that is gone, is a success.
type Action interface {
	fmt.Stringer
	kind() string
}

// Kinds of actions.
var Kinds = []string{"namespace", "link", "address", "route", "rule", "sysctl", "table", "element"}

// The actions.
type (
	// AddNamespace makes an empty namespace.
	AddNamespace struct{ Name string }
	// DelNamespace removes a namespace with everything in it.
	DelNamespace struct{ Name string }
	// AddVeth makes a veth of the node that is down, with its Peer in a namespace. Both have
	// their MTU, and their MAC address if it is given.
	AddVeth struct {
		Link      Link
		Namespace string
		Peer      Link
	}
	// SetLink changes the properties that differ. It puts no link on a bridge.
	SetLink struct{ Is, Want Link }
	// DelLink removes a link, and the other end of a veth with it.
	DelLink struct{ Name string }

	// AddAddress to a link.
	AddAddress struct{ Address }
	// DelAddress from a link.
	DelAddress struct{ Address }
	// AddRoute adds a route if there is none to that destination.
	AddRoute struct{ Route }
	// AppendRoute adds a route behind all others to that destination, which stay preferred.
	AppendRoute struct{ Route }
	// DelRoute removes exactly this route.
	DelRoute struct{ Route }
	// AddRule adds a rule without More.
	AddRule struct{ Rule }
	// DelRule removes exactly this rule.
	DelRule struct{ Rule }
	// SetSysctl of the namespace.
	SetSysctl struct{ Sysctl }

	// ReplaceTable replaces the table with this name, if there is one, in one transaction.
	ReplaceTable struct{ Table Table }
	// DelTable removes a table with everything in it.
	DelTable struct{ Family, Name string }
	// ChangeElements changes elements of the sets of a table in one transaction.
	ChangeElements struct {
		Family, Table string
		Changes       []ElementChange
	}
)

// ElementChange of one set, which has that type.
type ElementChange struct {
	Set, Type string
	Del, Add  []string
}

func (AddNamespace) kind() string   { return "namespace" }
func (DelNamespace) kind() string   { return "namespace" }
func (AddVeth) kind() string        { return "link" }
func (SetLink) kind() string        { return "link" }
func (DelLink) kind() string        { return "link" }
func (AddAddress) kind() string     { return "address" }
func (DelAddress) kind() string     { return "address" }
func (AddRoute) kind() string       { return "route" }
func (AppendRoute) kind() string    { return "route" }
func (DelRoute) kind() string       { return "route" }
func (AddRule) kind() string        { return "rule" }
func (DelRule) kind() string        { return "rule" }
func (SetSysctl) kind() string      { return "sysctl" }
func (ReplaceTable) kind() string   { return "table" }
func (DelTable) kind() string       { return "table" }
func (ChangeElements) kind() string { return "element" }

// Kind of the step's action, one of Kinds.
func (s Step) Kind() string { return s.Action.kind() }

// String has one action a line, in order.
func (p Plan) String() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteString(step.String() + "\n")
	}
	return b.String()
}

// String is the command of iproute2 or nft that does the same.
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
