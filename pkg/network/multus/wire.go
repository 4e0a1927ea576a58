package multus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

// wireKeys are the keys in configurations of common plugins that name the link of an
// interface.
var wireKeys = []string{"master", "bridge", "vlan", "vlanId", "device", "deviceID"}

// Wire names the link to which the first plugin of a Network of type CNI attaches pods,
// such as "macvlan master=eth1"; "" if it is unknown. Two Networks with the same wire
// share one layer 2, as far as their configurations show. macvlan and ipvlan count as the
// same. On two nodes, eth1 may lead to different networks.
func Wire(n *v1.Network) string {
	if overlay(n) {
		return ""
	}
	var config map[string]json.RawMessage
	if json.Unmarshal([]byte(n.Spec.Attachment.Config), &config) != nil {
		return ""
	}
	if raw, isList := config["plugins"]; isList {
		var plugins []map[string]json.RawMessage
		if json.Unmarshal(raw, &plugins) != nil || len(plugins) == 0 {
			return ""
		}
		config = plugins[0]
	}
	var kind string
	if json.Unmarshal(config["type"], &kind) != nil || kind == "" {
		return ""
	}
	if kind == "ipvlan" {
		kind = "macvlan"
	}
	words := []string{kind}
	for _, key := range wireKeys {
		var value any
		if raw, given := config[key]; given && json.Unmarshal(raw, &value) == nil && value != nil {
			words = append(words, fmt.Sprintf("%s=%v", key, value))
		}
	}
	return strings.Join(words, " ")
}

// shared returns the first other Network that would hand out an address of this one on
// the same wire, in the order of the State; nil: none.
func (s State) shared() *v1.Network {
	wire := Wire(s.Network)
	pool, err := network.Pool(s.Network)
	if wire == "" || err != nil {
		return nil
	}
	i := slices.IndexFunc(s.Others, func(other *v1.Network) bool {
		theirs, err := network.Pool(other)
		return err == nil && other.UID != s.Network.UID && Wire(other) == wire && pool.Overlaps(theirs)
	})
	if i < 0 {
		return nil
	}
	return s.Others[i]
}
