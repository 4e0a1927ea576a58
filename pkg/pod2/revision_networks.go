package pod2

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Network is an entry of spec.networks in a revision. Without interface and addresses,
// its JSON is its name alone:
//
//	"blue"
//	{"name":"green","interface":"eth0","addresses":["10.1.0.10"]}
//
// Earlier releases wrote only the name for every Network. recordedNetworks decides which
// addresses such a revision has.
type Network v1.Pod2Network

func (n Network) plain() bool { return n.Interface == "" && len(n.Addresses) == 0 }

// MarshalJSON writes a Network as its type describes.
func (n Network) MarshalJSON() ([]byte, error) {
	if n.plain() {
		return json.Marshal(n.Name)
	}
	return json.Marshal(v1.Pod2Network(n))
}

// UnmarshalJSON reads both forms.
func (n *Network) UnmarshalJSON(raw []byte) error {
	*n = Network{}
	if bytes.HasPrefix(raw, []byte(`"`)) {
		return json.Unmarshal(raw, &n.Name)
	}
	return json.Unmarshal(raw, (*v1.Pod2Network)(n))
}

func networksOf(p *v1.Pod2) []Network {
	networks := make([]Network, 0, len(p.Spec.Networks))
	for _, n := range p.Spec.Networks {
		networks = append(networks, Network(n))
	}
	slices.SortStableFunc(networks, func(a, b Network) int { return cmp.Compare(a.Name, b.Name) })
	return networks
}

// withoutDetails returns the content that is hashed. Interfaces and addresses are
// compared for each replica, by v1.Pod2RequestAnnotation. Changing them replaces only the
// replicas that are affected.
func (c Content) withoutDetails() Content {
	names := make([]Network, 0, len(c.Networks))
	for _, n := range c.Networks {
		names = append(names, Network{Name: n.Name})
	}
	c.Networks = names
	return c
}

// withoutDetails does the same to stored JSON, whose unknown fields stay.
func withoutDetails(raw []byte) []byte {
	return canonicalAfter(raw, func(value any) {
		content, _ := value.(map[string]any)
		networks, _ := content["networks"].([]any)
		for i, n := range networks {
			if details, ok := n.(map[string]any); ok {
				networks[i] = details["name"]
			}
		}
	})
}

// maxNetworksRecord bounds the annotation, in bytes: all annotations of an object share
// 256 KiB. A revision with a longer record uses the addresses of the spec.
const maxNetworksRecord = 200 << 10

// recordedNetworks returns the Networks of a revision with their interfaces and
// addresses, and the record of them if it must be written. The first match wins:
//
//	its data has interfaces or addresses     these
//	it has the annotation                    the Networks in it
//	neither: from an earlier release         those of the spec when it is first seen
func (r *revision) recordedNetworks(spec []Network) (networks []Network, record string) {
	own := r.content.Networks
	if !slices.ContainsFunc(own, func(n Network) bool { return !n.plain() }) && len(own) > 0 {
		var recorded []Network
		text := r.object.Annotations[v1.RevisionNetworksAnnotation]
		if json.Unmarshal([]byte(text), &recorded) == nil && slices.EqualFunc(recorded, own, func(a, b Network) bool { return a.Name == b.Name }) {
			return recorded, ""
		}
		networks = slices.Clone(own)
		for i := range networks {
			for _, n := range spec {
				if n.Name == networks[i].Name {
					networks[i] = n
				}
			}
		}
		if record = networksRecord(networks); len(record) > maxNetworksRecord {
			record = ""
		}
		return networks, record
	}
	return own, ""
}

func networksRecord(networks []Network) string {
	text, _ := json.Marshal(networks) // never fails
	return string(text)
}
