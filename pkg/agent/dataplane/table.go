package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Table is the nftables table of the family inet with the name TableName. Rules are in the language of nft.
type Table struct {
	Sets   []Set
	Chains []Chain
}

// Set has its elements in order. If its type has no port, that of an element is 0. A set of intervals has prefixes
// instead, which do not overlap.
type Set struct {
	Name, Type string
	Elements   []netip.AddrPort
	Interval   bool
	Prefixes   []netip.Prefix
}

// Chain has the name of its hook, and accepts packets that no rule drops. One without a type has no hook: rules lead to
// it with goto.
type Chain struct {
	Name, Type string
	Priority   int
	Rules      []string
}

// String is the text of `nft list table`.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", TableName)
	for _, s := range t.Sets {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype %s\n", s.Name, s.Type)
		if s.Interval {
			b.WriteString("\t\tflags interval\n")
		}
		if texts := s.texts(); len(texts) > 0 {
			fmt.Fprintf(&b, "\t\telements = { %s }\n", strings.Join(texts, ",\n\t\t\t     "))
		}
		b.WriteString("\t}\n")
	}
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		if c.Type != "" {
			fmt.Fprintf(&b, "\t\ttype %s hook %s priority %d; policy accept;\n", c.Type, c.Name, c.Priority)
		}
		for _, rule := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", rule)
		}
		b.WriteString("\t}\n")
	}
	return b.String() + "}\n"
}

// texts of the elements, such as "10.0.0.1" or "10.0.0.1 . 6443".
func (s Set) texts() (texts []string) {
	for _, e := range s.Elements {
		text := e.Addr().String()
		if strings.HasSuffix(s.Type, " . inet_service") {
			text += fmt.Sprint(" . ", e.Port())
		}
		texts = append(texts, text)
	}
	for _, p := range s.Prefixes {
		texts = append(texts, strings.TrimSuffix(p.String(), fmt.Sprint("/", p.Addr().BitLen())))
	}
	return texts
}

// newSet has those of the elements that are of its family, in order.
func newSet(name, kind string, all []netip.AddrPort) Set {
	s := Set{Name: name, Type: kind}
	for _, e := range all {
		if e.Addr().Is4() == strings.HasPrefix(kind, "ipv4_addr") {
			s.Elements = append(s.Elements, e)
		}
	}
	slices.SortFunc(s.Elements, netip.AddrPort.Compare)
	s.Elements = slices.Compact(s.Elements)
	return s
}

// newIntervals has the prefixes of its family, in order, without those that another one contains.
func newIntervals(name, kind string, all []netip.Prefix) Set {
	s := Set{Name: name, Type: kind, Interval: true}
	for _, p := range slices.SortedFunc(slices.Values(all), netip.Prefix.Compare) { // the wider of two comes first
		contained := len(s.Prefixes) > 0 && s.Prefixes[len(s.Prefixes)-1].Overlaps(p)
		if p.Addr().Is4() == (kind == "ipv4_addr") && !contained {
			s.Prefixes = append(s.Prefixes, p.Masked())
		}
	}
	return s
}
