package pod2

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Network is one of spec.networks as a revision has it. Its JSON is its name alone if it
// has neither interface nor addresses:
//
//	"blue"
//	{"name":"green","interface":"eth0","addresses":["10.1.0.10"]}
//
// Earlier releases wrote the name alone for every Network. See recordedNetworks for what
// such a revision is taken to have.
type Network v1.Pod2Network

func (n Network) plain() bool { return n.Interface == "" && len(n.Addresses) == 0 }

// MarshalJSON writes a Network as described at its type.
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

// withoutDetails is the content as it is hashed: interfaces and addresses are compared
// replica by replica, by v1.Pod2RequestAnnotation, and a change of them replaces only the
// replicas that it concerns.
func (c Content) withoutDetails() Content {
	names := make([]Network, 0, len(c.Networks))
	for _, n := range c.Networks {
		names = append(names, Network{Name: n.Name})
	}
	c.Networks = names
	return c
}

// withoutDetails is the same of stored JSON, whose unknown fields stay.
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

// maxNetworksRecord bounds the annotation, in bytes: an object has 256 KiB for all of its
// annotations. A revision whose record would be longer goes on as the spec has it.
const maxNetworksRecord = 200 << 10

// recordedNetworks are the Networks of a revision with their interfaces and addresses, and
// the record of them if it has to be written; first match wins:
//
//	its data has interfaces or addresses     these
//	it has the annotation                    what that says
//	neither: of an earlier release           what the spec has when it is first seen
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
	text, _ := json.Marshal(networks) // which always works
	return string(text)
}
