package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Address is the address of a pod on one Network.
type Address struct {
	// Address is the address of the pod with the prefix length of the Network at the time
	// of the bind; its host bits are set.
	Address netip.Prefix `json:"address"`
	// Gateway of the Network; zero if it has none, such as a /32.
	Gateway netip.Addr `json:"gateway,omitzero"`
	// MAC is the hardware address that belongs to Address. It is not checked when it is
	// read: an annotation with a damaged MAC still says which address is in use.
	MAC string `json:"mac"`
}

// ParseAddresses reads the value of the annotation samplecrd.k8s.io/addresses. It is a
// JSON object from the name of a Network to the pod's address there:
//
//	{"blue":{"address":"192.168.0.2/16","gateway":"192.168.0.1","mac":"0a:58:c0:a8:00:02"}}
//	{"v6":{"address":"fd00::2/64","gateway":"fd00::1","mac":"0a:58:00:00:00:02"}}
//
// It ignores unknown fields, because a later version may have written them. It is an
// error if a Network has no address, or an IPv4-mapped one, which would not equal the
// address in the AddressBlock.
func ParseAddresses(annotation string) (map[string]Address, error) {
	addresses, formatted := parseFormatted(annotation)
	if !formatted {
		addresses = nil
		if err := json.Unmarshal([]byte(annotation), &addresses); err != nil {
			return nil, fmt.Errorf(`is not a JSON object from Network to address such as {"blue":{"address":"192.168.0.2/16"}}; the controller writes it, do not change it: %w`, err)
		}
	}
	if addresses == nil {
		return nil, errors.New("is null: the controller writes it, do not change it")
	}
	if len(addresses) > MaxNetworks {
		return nil, fmt.Errorf("names %d Networks, but a pod can join at most %d: the controller writes it, do not change it", len(addresses), MaxNetworks)
	}
	for _, network := range slices.Sorted(maps.Keys(addresses)) {
		switch a := addresses[network].Address; {
		case !a.IsValid():
			return nil, fmt.Errorf("has no address for Network %q: the controller writes it, do not change it", network)
		case a.Addr().Is4In6():
			return nil, fmt.Errorf("has the IPv4-mapped address %s for Network %q: the controller writes it, do not change it", a, network)
		}
	}
	return addresses, nil
}

// parseFormatted reads a text exactly as FormatAddresses writes it, and no other JSON. The
// controller reads the annotation of each pod dozens of times, and encoding/json takes
// five times as long.
func parseFormatted(text string) (addresses map[string]Address, formatted bool) {
	rest, ok := strings.CutPrefix(text, "{")
	value := func(before string) (text string) {
		if rest, ok = cutPrefix(rest, before, ok); ok {
			text, rest, ok = strings.Cut(rest, `"`)
		}
		ok = ok && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' })
		return text
	}
	addresses = map[string]Address{}
	for ok && rest != "}" {
		if len(addresses) > 0 {
			rest, ok = cutPrefix(rest, ",", ok)
		}
		var a Address
		var err, gatewayErr error
		network := value(`"`)
		a.Address, err = netip.ParsePrefix(value(`:{"address":"`))
		if strings.HasPrefix(rest, `,"gateway":"`) {
			a.Gateway, gatewayErr = netip.ParseAddr(value(`,"gateway":"`))
		}
		a.MAC = value(`,"mac":"`)
		rest, ok = cutPrefix(rest, "}", ok && err == nil && gatewayErr == nil)
		addresses[network] = a
	}
	return addresses, ok
}

func cutPrefix(text, prefix string, ok bool) (string, bool) {
	after, found := strings.CutPrefix(text, prefix)
	return after, ok && found
}

// FormatAddresses writes the value of the annotation samplecrd.k8s.io/addresses as
// ParseAddresses documents it: compact, in name order, "{}" for none. Equal addresses
// give equal text.
func FormatAddresses(addresses map[string]Address) string {
	if addresses == nil {
		return "{}"
	}
	return string(mustMarshal(addresses))
}

// mustMarshal marshals strings, addresses and JSON that was parsed before. The encoder
// accepts all of these.
func mustMarshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("write %T as JSON: %v", v, err))
	}
	return out
}
