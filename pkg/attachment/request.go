package attachment

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Request is one Network that a pod asks to join.
type Request struct {
	// Network is the name of a Network in the namespace of the pod.
	Network string
	// Interface is what the pod is to call its end of it, PrimaryInterface to have the
	// Network for its default route. Empty: the next free of net1, net2, ...
	Interface string
	// Address is the wanted address, without zone and never IPv4-mapped. Zero:
	// any address will do.
	Address netip.Addr
}

// PrimaryInterface is the one through which a pod has its default route, and whose
// address is the pod's own. It is of the cluster's network, unless the pod asks for a
// Network there.
const PrimaryInterface = "eth0"

// MaxNetworks is how many Networks a pod joins at most, a Pod2's replica as well as
// any other: what one pod asks for is work for every Network that it names.
const MaxNetworks = 16

// ParseRequests reads the value of the annotation samplecrd.k8s.io/networks:
//
//	requests = request *( "," request )
//	request  = network [ "@" interface ] [ "=" address ]
//
// network is a DNS label (RFC 1123, at most 63 characters), interface the name of a
// network interface (Linux: at most 15 characters), address an IPv4 or IPv6 address
// without prefix length and zone. White space around each of them is ignored. The
// result is in name order, whatever the order in the annotation:
//
//	"green=10.1.0.10, blue"    {blue, any} {green, 10.1.0.10}
//	"blue@eth0, green@db"      {blue, eth0, any} {green, db, any}
//	"v6@net9 = FD00:0::10"     {v6, net9, fd00::10}
//	""                         error: names no Network
//	"blue, "                   error: element 2 is empty
//	"blue, blue=10.0.0.5"      error: element 2 names blue once more
//	"blue@net1, green@net1"    error: element 2 names interface net1 once more
//
// The error tells which element is at fault and how to write it. Its length is
// bounded, so that it fits an event.
func ParseRequests(annotation string) ([]Request, error) {
	if strings.TrimSpace(annotation) == "" {
		return nil, errors.New(`names no Network: write the names of Networks of the pod's namespace, separated by commas, for example "blue" or "blue, green=10.1.0.10"`)
	}
	if n := strings.Count(annotation, ",") + 1; n > MaxNetworks {
		return nil, fmt.Errorf("names %d Networks, and a pod joins at most %d: name fewer", n, MaxNetworks)
	}
	var requests []Request
	position, interfaces := map[string]int{}, map[string]int{}
	for i, element := range strings.Split(annotation, ",") {
		element = strings.TrimSpace(element)
		r, err := parseRequest(element)
		if err != nil {
			return nil, fmt.Errorf("element %d (%.80q) %w", i+1, element, err)
		}
		if first, ok := position[r.Network]; ok {
			return nil, fmt.Errorf("element %d (%.80q) names Network %s once more after element %d: a pod joins a Network once, remove one of the two", i+1, element, r.Network, first)
		}
		if first, ok := interfaces[r.Interface]; ok && r.Interface != "" {
			return nil, fmt.Errorf("element %d (%.80q) names interface %s once more after element %d: name another, or none", i+1, element, r.Interface, first)
		}
		position[r.Network], interfaces[r.Interface] = i+1, i+1
		requests = append(requests, r)
	}
	slices.SortFunc(requests, byNetwork)
	return requests, nil
}

// The longest text that is an address: an IPv4-mapped one at full length, which
// deserves the message about those. Longer text is not repeated in the error.
const maxAddressText = len("0000:0000:0000:0000:0000:ffff:255.255.255.255")

func parseRequest(element string) (Request, error) {
	if element == "" {
		return Request{}, errors.New("is empty: remove the comma, or write the name of a Network")
	}
	front, text, wanted := strings.Cut(element, "=")
	name, iface, named := strings.Cut(front, "@")
	name, iface, text = strings.TrimSpace(name), strings.TrimSpace(iface), strings.TrimSpace(text)
	if len(validation.IsDNS1123Label(name)) > 0 {
		return Request{}, errors.New("does not begin with the name of a Network: that is at most 63 lower-case letters, digits and '-', with a letter or digit at both ends; Networks are separated by commas")
	}
	if named && !isInterface(iface) {
		return Request{}, fmt.Errorf("names no interface after the '@': that is at most %d letters, digits, '-', '_' and '.', of which the first is a letter or digit, and not lo; write for example %s@net1", maxInterface, name)
	}
	if !wanted {
		return Request{Network: name, Interface: iface}, nil
	}
	if len(text) > maxAddressText {
		return Request{}, fmt.Errorf("does not end with an IP address: write %s for any address, or one address as in %[1]s=10.1.0.10 or %[1]s=fd00::10", name)
	}
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return Request{}, fmt.Errorf("does not end with an IP address: write %s for any address, or one address without prefix length as in %[1]s=10.1.0.10 or %[1]s=fd00::10: %w", name, err)
	case address.Is4In6():
		return Request{}, fmt.Errorf("has an IPv4-mapped IPv6 address: write %s=%s", name, address.Unmap())
	case address.Zone() != "":
		return Request{}, fmt.Errorf("has an address with a zone, which no Network hands out: write %s=%s", name, address.WithZone(""))
	}
	return Request{Network: name, Interface: iface, Address: address}, nil
}

// maxInterface is IFNAMSIZ of Linux less the zero at the end.
const maxInterface = 15

// isInterface is stricter than Linux, which refuses little more than '/', ':' and
// white space, and takes what no shell and no log line would show as it is.
func isInterface(name string) bool {
	letter := func(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	if name == "" || len(name) > maxInterface || name == "lo" || !letter(name[0]) {
		return false
	}
	for i := range len(name) {
		if !letter(name[i]) && !strings.Contains("-_.", name[i:i+1]) {
			return false
		}
	}
	return true
}

// RequestedNetworks are the names of the Networks that these annotations, of a
// pod or of a template, ask for; none if they ask for none or do not parse.
func RequestedNetworks(annotations map[string]string) []string {
	// The pod is where its user is told what does not parse.
	requests, _ := ParseRequests(annotations[v1.NetworksAnnotation])
	names := make([]string, 0, len(requests))
	for _, r := range requests {
		names = append(names, r.Network)
	}
	return names
}

// FormatRequests writes the value of the annotation samplecrd.k8s.io/networks,
// in name order and with every address in its shortest form (RFC 5952):
//
//	{green, net2, 10.1.0.10} {blue, any}   "blue, green@net2=10.1.0.10"
//
// ParseRequests reads it back, unless there is no request at all: that is "",
// which stands for no annotation.
func FormatRequests(requests []Request) string {
	elements := make([]string, 0, len(requests))
	for _, r := range slices.SortedFunc(slices.Values(requests), byNetwork) {
		element := r.Network
		if r.Interface != "" {
			element += "@" + r.Interface
		}
		if r.Address.IsValid() {
			element += "=" + r.Address.String()
		}
		elements = append(elements, element)
	}
	return strings.Join(elements, ", ")
}

func byNetwork(a, b Request) int {
	return cmp.Compare(a.Network, b.Network)
}
