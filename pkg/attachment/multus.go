package attachment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
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

// defaultSelection is what we write of one that is the default network.
type defaultSelection struct {
	selection

	// DefaultRoute has the gateway. Without it the pod has no default route at all: the
	// plugins of eth0 make the routes of its own definition, and those of ours have none.
	DefaultRoute []netip.Addr `json:"default-route,omitempty"`
}

// Element is what a pod is to have of one Network.
type Element struct {
	Request Request
	Address Address
}

// Elements are the requests that got an address.
func Elements(requests []Request, addresses map[string]Address) []Element {
	var elements []Element
	for _, r := range requests {
		if a, ok := addresses[r.Network]; ok {
			elements = append(elements, Element{r, a})
		}
	}
	return elements
}

// Multus holds the values of the two annotations that Multus reads.
type Multus struct {
	// Networks, of k8s.v1.cni.cncf.io/networks, is always to be written.
	Networks string
	// DefaultNetwork, of v1.multus-cni.io/default-network; "" leaves that as it is.
	DefaultNetwork string
}

// AppendMultus adds our elements to what the annotations of a pod ask of Multus
// already. namespace is that of the pod and so of its Networks. What asks for
// PrimaryInterface becomes the default network, every other element one more of
// k8s.v1.cni.cncf.io/networks, a JSON list; what that had before, the short form or
// a JSON list, told apart as Multus does, stays in front and as it is, unknown
// fields included. With {blue, 192.168.0.2/16} and namespace default:
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
// from 1, net<i> if it names no interface; those of ours for which none is asked name
// the first net<i>, from their own position up, that no other element has or gets, so
// that the names are stable and collide with none.
//
// An element that is there already with our name, namespace and address counts as
// ours and is not added again: AppendMultus of its own result changes nothing.
//
// The error says which element does not parse, for which Multus would refuse the pod
// when it runs, or what is asked for twice.
func AppendMultus(annotations map[string]string, namespace string, add []Element) (Multus, error) {
	networks, known, err := parseMultus(annotations[v1.MultusAnnotation])
	if err != nil {
		return Multus{}, fmt.Errorf("annotation %s: reading the networks that the pod already asks of Multus: %w", v1.MultusAnnotation, err)
	}
	var result Multus
	var missing []selection
	for _, e := range slices.SortedFunc(slices.Values(add), func(a, b Element) int { return byNetwork(a.Request, b.Request) }) {
		ours := selection{
			Name: e.Request.Network, Namespace: namespace, Interface: e.Request.Interface,
			IPs: []string{e.Address.Address.String()}, MAC: e.Address.MAC,
		}
		switch {
		case ours.Interface == PrimaryInterface:
			if result.DefaultNetwork, err = defaultNetwork(annotations[v1.MultusDefaultAnnotation], ours, e.Address.Gateway); err != nil {
				return Multus{}, fmt.Errorf("annotation %s: %w", v1.MultusDefaultAnnotation, err)
			}
		case !slices.ContainsFunc(known, func(s selection) bool { return s.asks(ours) }):
			missing = append(missing, ours)
		}
	}
	if missing, err = nameInterfaces(known, missing); err != nil {
		return Multus{}, fmt.Errorf("annotation %s: %w", v1.MultusAnnotation, err)
	}
	for _, ours := range missing {
		networks = append(networks, mustMarshal(ours))
	}
	result.Networks = string(mustMarshal(networks))
	return result, nil
}

// nameInterfaces returns add with an interface for each, none of which is another's.
func nameInterfaces(known, add []selection) ([]selection, error) {
	holders := map[string]string{}
	for i, s := range known {
		holders[cmp.Or(s.Interface, netName(i+1))] = s.Name
	}
	for _, s := range add {
		if holder, taken := holders[s.Interface]; taken {
			return nil, fmt.Errorf("interface %s, on which Network %s is asked for, is that of network %.80q: name another", s.Interface, s.Name, holder)
		}
		if s.Interface != "" {
			holders[s.Interface] = s.Name
		}
	}
	named := make([]selection, 0, len(add))
	for _, s := range add {
		if s.Interface == "" {
			// Below are the positions of others, for which Multus would choose these names.
			n := len(known) + len(named) + 1
			for holders[netName(n)] != "" {
				n++
			}
			s.Interface = netName(n)
			holders[s.Interface] = s.Name
		}
		named = append(named, s)
	}
	return named, nil
}

// defaultNetwork is the value that makes ours the interface eth0 of the pod, with its
// default route by the gateway, if there is one; an error if somebody else's is asked
// for there.
func defaultNetwork(existing string, ours selection, gateway netip.Addr) (string, error) {
	ours.Interface = "" // Multus knows which
	if strings.TrimSpace(existing) != "" {
		_, known, err := parseMultus(existing)
		if err != nil {
			return "", err
		}
		if len(known) != 1 || !known[0].asks(ours) {
			return "", fmt.Errorf("%s is where Network %s is asked for, and so is %.80q: remove the annotation, or ask for another interface", PrimaryInterface, ours.Name, existing)
		}
	}
	element := defaultSelection{selection: ours}
	if gateway.IsValid() {
		element.DefaultRoute = []netip.Addr{gateway}
	}
	return string(mustMarshal([]defaultSelection{element})), nil
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
