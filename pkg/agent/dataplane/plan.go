package dataplane

import (
	"fmt"
	"strings"
)

// Plan is what is to be done to a kernel, in this order: first what concerns the whole
// node, which closes what is not to be open, then Network by Network. What stops one
// Network does not stop the next; what stops the node's part, Network 0, stops all. Of a
// Network, what leads to pods comes before the addresses and routes of its gateway, which
// pods do without.
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
var Kinds = []string{"namespace", "link", "address", "route", "rule", "sysctl", "fdb", "neighbour", "table", "element"}

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
	// AppendRoute behind all others to that destination, which stay preferred.
	AppendRoute struct{ Route }
	// DelRoute that is just so.
	DelRoute struct{ Route }
	// AddRule that has no More.
	AddRule struct{ Rule }
	// DelRule that is just so.
	DelRule struct{ Rule }
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
func (AppendRoute) kind() string      { return "route" }
func (DelRoute) kind() string         { return "route" }
func (AddRule) kind() string          { return "rule" }
func (DelRule) kind() string          { return "rule" }
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
