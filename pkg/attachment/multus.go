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

// selection has the fields that we read and write of a network selection element, as
// defined in the Kubernetes Network Custom Resource Definition De-facto Standard.
type selection struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace,omitempty"`
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
}

// defaultSelection has the fields that we write for the default network.
type defaultSelection struct {
	selection

	// DefaultRoute has the gateway. Without it the pod has no default route: the plugins
	// of eth0 make the routes in its own definition, and our definitions have none.
	DefaultRoute []netip.Addr `json:"default-route,omitempty"`
}

// Element is one Network of a pod: the request and the address.
type Element struct {
	Request Request
	Address Address
}

// Elements returns the requests that got an address.
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
	// Networks, for k8s.v1.cni.cncf.io/networks, must always be written.
	Networks string
	// DefaultNetwork, for v1.multus-cni.io/default-network; "" keeps the annotation
	// unchanged.
	DefaultNetwork string
}

// AppendMultus adds our elements to the networks that a pod's annotations already request
// from Multus. namespace is the namespace of the pod and so of its Networks. A request
// for PrimaryInterface becomes the default network. Every other element is added to
// k8s.v1.cni.cncf.io/networks, which becomes a JSON list. Its earlier elements, in the
// short form or as a JSON list (told apart as Multus does), stay in front and unchanged,
// with unknown fields. With {blue, 192.168.0.2/16} and namespace default:
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
// Our elements follow in name order. If the i-th element, counted from 1, names no
// interface, Multus calls it net<i>. Each of our elements without a requested interface
// gets the first net<i>, from its own position up, that no other element has or gets. So
// the names are stable and do not collide.
//
// If an element has the same name, namespace and address already, AppendMultus does not
// add it again: applied to its own result, it changes nothing.
//
// The error names the element that does not parse, because Multus would refuse the pod
// when it starts. Or it names the interface that is requested twice.
func AppendMultus(annotations map[string]string, namespace string, add []Element) (Multus, error) {
	networks, known, err := parseMultus(annotations[v1.MultusAnnotation])
	if err != nil {
		return Multus{}, fmt.Errorf("annotation %s: read the networks that the pod already requests from Multus: %w", v1.MultusAnnotation, err)
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

// nameInterfaces returns add with a unique interface for each element.
func nameInterfaces(known, add []selection) ([]selection, error) {
	holders := map[string]string{}
	for i, s := range known {
		holders[cmp.Or(s.Interface, netName(i+1))] = s.Name
	}
	for _, s := range add {
		if holder, taken := holders[s.Interface]; taken {
			return nil, fmt.Errorf("interface %s of Network %s is already used by network %.80q: name another", s.Interface, s.Name, holder)
		}
		if s.Interface != "" {
			holders[s.Interface] = s.Name
		}
	}
	named := make([]selection, 0, len(add))
	for _, s := range add {
		if s.Interface == "" {
			// Other elements have lower positions, for which Multus would choose lower
			// names.
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

// defaultNetwork returns the value that makes our element the interface eth0 of the pod,
// with its default route through the gateway, if there is one. It is an error if another
// element is requested there.
func defaultNetwork(existing string, ours selection, gateway netip.Addr) (string, error) {
	ours.Interface = "" // Multus knows the interface
	if strings.TrimSpace(existing) != "" {
		_, known, err := parseMultus(existing)
		if err != nil {
			return "", err
		}
		if len(known) != 1 || !known[0].asks(ours) {
			return "", fmt.Errorf("%s is requested by Network %s and by %.80q: remove the annotation, or request another interface", PrimaryInterface, ours.Name, existing)
		}
	}
	element := defaultSelection{selection: ours}
	if gateway.IsValid() {
		element.DefaultRoute = []netip.Addr{gateway}
	}
	return string(mustMarshal([]defaultSelection{element})), nil
}

// asks reports whether s requests the same as our element. Without a namespace, Multus
// uses the pod's namespace, which our element also has.
func (s selection) asks(ours selection) bool {
	return s.Name == ours.Name && cmp.Or(s.Namespace, ours.Namespace) == ours.Namespace && slices.Equal(s.IPs, ours.IPs)
}

func netName(i int) string {
	return "net" + strconv.Itoa(i)
}

// parseMultus returns the elements twice: as raw text to write, and the fields that we
// know. The raw list is not nil, so it is written as a list.
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
		// The decoder also accepts null.
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

// parseMultusName accepts an empty namespace or interface, like Multus. It leaves the
// check of the characters to Multus, except for those that would change the meaning of
// the element.
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
			return selection{}, fmt.Errorf("has an unexpected %q", part[i])
		}
	}
	return s, nil
}
