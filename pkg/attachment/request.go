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
	// Interface is the name of the interface in the pod. PrimaryInterface gives the pod
	// its default route through this Network. Empty: the next free name of net1, net2,
	// ...
	Interface string
	// Address is the wanted address, without a zone and never IPv4-mapped. Zero: any
	// address.
	Address netip.Addr
}

// PrimaryInterface is the interface of a pod's default route, whose address is the pod's
// own. It belongs to the cluster's network, unless the pod asks for a Network on it.
const PrimaryInterface = "eth0"

// MaxNetworks is the limit of Networks for a pod, also for a replica of a Pod2. The
// requests of one pod cause work for every Network that it names.
const MaxNetworks = 16

// ParseRequests reads the value of the annotation samplecrd.k8s.io/networks:
//
//	requests = request *( "," request )
//	request  = network [ "@" interface ] [ "=" address ]
//
// network is a DNS label (RFC 1123, at most 63 characters). interface is the name of a
// network interface (Linux: at most 15 characters). address is an IPv4 or IPv6 address
// without prefix length and zone. White space around each of them is ignored. The result
// is in name order, for any order in the annotation:
//
//	"green=10.1.0.10, blue"    {blue, any} {green, 10.1.0.10}
//	"blue@eth0, green@db"      {blue, eth0, any} {green, db, any}
//	"v6@net9 = FD00:0::10"     {v6, net9, fd00::10}
//	""                         error: names no Network
//	"blue, "                   error: element 2 is empty
//	"blue, blue=10.0.0.5"      error: element 2 names blue again
//	"blue@net1, green@net1"    error: element 2 names interface net1 again
//
// The error names the wrong element and says how to write it. Its length is limited, so
// it fits an event.
func ParseRequests(annotation string) ([]Request, error) {
	if strings.TrimSpace(annotation) == "" {
		return nil, errors.New(`names no Network: write the names of Networks of the pod's namespace, separated by commas, for example "blue" or "blue, green=10.1.0.10"`)
	}
	if n := strings.Count(annotation, ",") + 1; n > MaxNetworks {
		return nil, fmt.Errorf("names %d Networks, but a pod can join at most %d: name fewer", n, MaxNetworks)
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
			return nil, fmt.Errorf("element %d (%.80q) names Network %s again after element %d: a pod can join a Network only once, remove one of the two", i+1, element, r.Network, first)
		}
		if first, ok := interfaces[r.Interface]; ok && r.Interface != "" {
			return nil, fmt.Errorf("element %d (%.80q) names interface %s again after element %d: name another, or none", i+1, element, r.Interface, first)
		}
		position[r.Network], interfaces[r.Interface] = i+1, i+1
		requests = append(requests, r)
	}
	slices.SortFunc(requests, byNetwork)
	return requests, nil
}

// The longest text of an address: a full-length IPv4-mapped one, which has its own
// message. The error does not repeat longer text.
const maxAddressText = len("0000:0000:0000:0000:0000:ffff:255.255.255.255")

func parseRequest(element string) (Request, error) {
	if element == "" {
		return Request{}, errors.New("is empty: remove the comma, or write the name of a Network")
	}
	front, text, wanted := strings.Cut(element, "=")
	name, iface, named := strings.Cut(front, "@")
	name, iface, text = strings.TrimSpace(name), strings.TrimSpace(iface), strings.TrimSpace(text)
	if len(validation.IsDNS1123Label(name)) > 0 {
		return Request{}, errors.New("does not begin with the name of a Network (at most 63 lower-case letters, digits and '-', with a letter or digit at both ends); separate Networks by commas")
	}
	if named && !isInterface(iface) {
		return Request{}, fmt.Errorf("names no valid interface after the '@' (at most %d letters, digits, '-', '_' and '.', beginning with a letter or digit, and not lo): write for example %s@net1", maxInterface, name)
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
		return Request{}, fmt.Errorf("has an address with a zone, which is not allowed: write %s=%s", name, address.WithZone(""))
	}
	return Request{Network: name, Interface: iface, Address: address}, nil
}

// maxInterface is Linux' IFNAMSIZ without the zero at the end.
const maxInterface = 15

// isInterface is stricter than Linux. Linux refuses little more than '/', ':' and white
// space, and accepts names that shells and log lines would not show unchanged.
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

// RequestedNetworks returns the names of the Networks in these annotations of a pod or
// template. It returns none if the annotations ask for none or do not parse.
func RequestedNetworks(annotations map[string]string) []string {
	// The condition of the pod reports an unreadable request to its user.
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
// ParseRequests reads it back, unless there is no request: that is "", which means no
// annotation.
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
