package dataplane

import (
	"fmt"
	"slices"
	"strings"
)

// Table is the nftables table of the family inet with the name TableName. Rules and elements are in the language of nft.
type Table struct {
	Sets   []Set
	Chains []Chain
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

// String is the text of `nft list table`.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", TableName)
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
			fmt.Fprintf(&b, "\t\t%s\n", line)
		}
		b.WriteString("\t}\n")
	}
	return b.String() + "}\n"
}

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
