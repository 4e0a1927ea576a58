package attachment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// selection is what we write and read of a network selection element, in the
// terms of the Kubernetes Network Custom Resource Definition De-facto Standard.
type selection struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace,omitempty"`
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
}

// AppendMultus adds one element per Network of add to the value of the
// annotation k8s.v1.cni.cncf.io/networks and returns it as a JSON list. namespace
// is that of the pod and so of its Networks. existing is "", the short form or a
// JSON list, told apart as Multus does; its elements stay in front and as they
// are, unknown fields included. With add = {blue: 192.168.0.2/16} and namespace
// default:
//
//	existing               result
//	""                     [BLUE net1]
//	"a, ns/b@eth1"         [{"name":"a"},{"name":"b","namespace":"ns","interface":"eth1"},BLUE net3]
//	[{"name":"a","x":1}]   [{"name":"a","x":1},BLUE net2]
//
// where BLUE net1 is
//
//	{"name":"blue","namespace":"default","interface":"net1","ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02"}
//
// Our elements follow in name order. Multus calls the i-th element, counted
// from 1, net<i> if it names no interface; ours name the first net<i>, from
// their own position up, that no other element has or gets, so that the names
// are stable and collide with none.
//
// An element of existing with our name, namespace and address counts as ours and
// is not added again: AppendMultus of its own result changes nothing.
//
// The error says which element of existing does not parse; Multus would refuse
// the pod for it when it runs.
func AppendMultus(existing, namespace string, add map[string]Address) (string, error) {
	elements, known, err := parseMultus(existing)
	if err != nil {
		return "", fmt.Errorf("reading the networks that the pod already asks of Multus: %w", err)
	}
	// What Multus names lies below our position, where ours never look.
	taken := map[string]bool{}
	for _, s := range known {
		taken[s.Interface] = true
	}
	for _, network := range slices.Sorted(maps.Keys(add)) {
		ours := selection{
			Name:      network,
			Namespace: namespace,
			IPs:       []string{add[network].Address.String()},
			MAC:       add[network].MAC,
		}
		if slices.ContainsFunc(known, func(s selection) bool { return s.asks(ours) }) {
			continue
		}
		i := len(elements) + 1
		for taken[netName(i)] {
			i++
		}
		ours.Interface = netName(i)
		taken[ours.Interface] = true
		elements = append(elements, mustMarshal(ours))
	}
	return string(mustMarshal(elements)), nil
}

// asks reports whether s asks for what ours does. Without a namespace, Multus
// takes that of the pod, which is ours.
func (s selection) asks(ours selection) bool {
	return s.Name == ours.Name && cmp.Or(s.Namespace, ours.Namespace) == ours.Namespace && slices.Equal(s.IPs, ours.IPs)
}

func netName(i int) string {
	return "net" + strconv.Itoa(i)
}

// parseMultus returns the elements twice: as they are to be written, and what
// we know of them. The first is not nil, so that it is written as a list.
func parseMultus(existing string) ([]json.RawMessage, []selection, error) {
	switch {
	case strings.TrimSpace(existing) == "":
		return []json.RawMessage{}, nil, nil
	case strings.ToValidUTF8(existing, "") != existing:
		// JSON could not carry such a name back.
		return nil, nil, fmt.Errorf(`%.80q is not UTF-8: write for example "a, ns/b@eth1"`, existing)
	case strings.ContainsAny(existing, `[{"`):
		return parseMultusJSON(existing)
	default:
		return parseMultusShort(existing)
	}
}

func parseMultusJSON(existing string) ([]json.RawMessage, []selection, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal([]byte(existing), &elements); err != nil {
		return nil, nil, fmt.Errorf(`not a JSON list such as [{"name":"a"}], nor the short form "a, ns/b@eth1": %w`, err)
	}
	known := make([]selection, len(elements))
	for i, element := range elements {
		if err := json.Unmarshal(element, &known[i]); err != nil {
			return nil, nil, fmt.Errorf(`element %d (%.80q) is not a network such as {"name":"a"}: %w`, i+1, element, err)
		}
		// So is null, which is no error to the decoder.
		if known[i].Name == "" {
			return nil, nil, fmt.Errorf(`element %d (%.80q) has no name: write for example {"name":"a"}`, i+1, element)
		}
	}
	return elements, known, nil
}

func parseMultusShort(existing string) ([]json.RawMessage, []selection, error) {
	var elements []json.RawMessage
	var known []selection
	for i, element := range strings.Split(existing, ",") {
		s, err := parseMultusName(strings.TrimSpace(element))
		if err != nil {
			return nil, nil, fmt.Errorf(`element %d (%.80q) %w: write "name", "namespace/name" or "namespace/name@interface"`, i+1, element, err)
		}
		elements, known = append(elements, mustMarshal(s)), append(known, s)
	}
	return elements, known, nil
}

// parseMultusName is as lenient as Multus with an empty namespace or interface,
// and leaves to it which characters these have, beyond those that would make the
// element mean something else.
func parseMultusName(element string) (selection, error) {
	namespace, rest, ok := strings.Cut(element, "/")
	if !ok {
		namespace, rest = "", element
	}
	name, iface, _ := strings.Cut(rest, "@")
	s := selection{Name: strings.TrimSpace(name), Namespace: strings.TrimSpace(namespace), Interface: strings.TrimSpace(iface)}
	if s.Name == "" {
		return selection{}, errors.New("names no network")
	}
	for _, part := range []string{s.Namespace, s.Name, s.Interface} {
		if i := strings.IndexAny(part, "/@ \t\r\n"); i >= 0 {
			return selection{}, fmt.Errorf("has %q where none belongs", part[i])
		}
	}
	return s, nil
}
