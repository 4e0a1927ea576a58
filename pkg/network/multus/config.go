package multus

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// cniVersion is the version of the CNI specification for the configurations that we write.
// Multus v4.2.3 cannot give a pod a default route over an interface of version 1.1.0
// (test/e2e, TestDefaultRouteNeedsVersion10). It would pass the commands of 1.1.0, STATUS
// and GC, only to the cluster's own network.
const cniVersion = "1.0.0"

// overheadVXLAN is the size that VXLAN adds to a packet, in bytes. The payload of the outer
// Ethernet frame holds an IPv4 header (20), UDP (8), VXLAN (8) and the inner Ethernet header
// (14); see RFC 7348, section 5. Nodes that use IPv6 among themselves need 20 more: set
// spec.mtu or --underlay-mtu.
const overheadVXLAN = 50

// MTU of an Overlay Network, in bytes.
func MTU(n *v1.Network, underlay int32) int32 {
	if n.Spec.MTU != nil {
		return *n.Spec.MTU
	}
	return underlay - overheadVXLAN
}

// overlayPlugin is the binary of cmd/pod2-cni.
const overlayPlugin = "pod2-cni"

// networkConfig is a CNI network configuration list, and pluginConfig one plugin in it.
type networkConfig struct {
	CNIVersion string         `json:"cniVersion"`
	Name       string         `json:"name"`
	Plugins    []pluginConfig `json:"plugins"`
}

type pluginConfig struct {
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
}

// ipamConfig is the part of a user's ipam that counts.
type ipamConfig struct {
	Type   string          `json:"type"`
	Routes json.RawMessage `json:"routes,omitempty"`
	DNS    json.RawMessage `json:"dns,omitempty"`
}

// capabilities make the runtime pass the addresses of a pod to the plugin.
var capabilities = map[string]bool{"ips": true, "mac": true}

// networkName is the name in the configuration. pod2-agent reads the Network from it, and
// other plugins keep their state under it, for all namespaces. Neither part can have a dot.
func (s State) networkName() string { return s.Namespace + "." + s.Name }

// config returns the desired configuration of the definition. The plugin of Overlay
// Networks finds everything else by the name of the configuration, because pod2-agent knows
// the Network.
func (s State) config() (string, error) {
	if !overlay(s.Network) {
		return s.rawConfig()
	}
	return text(networkConfig{
		CNIVersion: cniVersion, Name: s.networkName(),
		Plugins: []pluginConfig{{Type: overlayPlugin, Capabilities: capabilities}},
	}), nil
}

// rawConfig is the user's configuration with our ipam in its first plugin, which creates the
// interface. It keeps everything else, also routes and dns of the ipam, and adds a missing
// version and name:
//
//	{"type":"macvlan","master":"eth1","ipam":{"type":"dhcp"}}
//
// becomes
//
//	{"capabilities":{"ips":true,"mac":true},"cniVersion":"1.0.0","ipam":{"type":"static"},
//	 "master":"eth1","name":"default.blue","type":"macvlan"}
func (s State) rawConfig() (string, error) {
	var config map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s.Network.Spec.Attachment.Config), &config); err != nil {
		return "", fmt.Errorf(`is not a JSON object such as {"type":"macvlan","master":"eth1"}: %w`, err)
	}
	if config == nil {
		return "", errors.New(`is null: write a JSON object such as {"type":"macvlan","master":"eth1"}`)
	}
	for key, value := range map[string]string{"cniVersion": cniVersion, "name": s.networkName()} {
		if _, given := config[key]; !given {
			config[key] = json.RawMessage(text(value))
		}
	}
	raw, isList := config["plugins"]
	if !isList {
		if err := setIPAM(config); err != nil {
			return "", err
		}
		return text(config), nil
	}
	var plugins []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &plugins); err != nil {
		return "", fmt.Errorf(`has plugins that are not a list of JSON objects such as [{"type":"macvlan"}]: %w`, err)
	}
	if len(plugins) == 0 || plugins[0] == nil {
		return "", errors.New(`has plugins without a first plugin: write for example [{"type":"macvlan","master":"eth1"}]`)
	}
	if err := setIPAM(plugins[0]); err != nil {
		return "", fmt.Errorf("in the first of plugins %w", err)
	}
	config["plugins"] = json.RawMessage(text(plugins))
	return text(config), nil
}

// lostIPAM tells the user about an ipam with fields that setIPAM does not keep. It
// returns "" if nothing is lost.
func (s State) lostIPAM() string {
	if overlay(s.Network) {
		return ""
	}
	var plugin, ipam map[string]json.RawMessage
	_ = json.Unmarshal([]byte(s.Network.Spec.Attachment.Config), &plugin)
	if raw, isList := plugin["plugins"]; isList {
		var plugins []map[string]json.RawMessage
		if _ = json.Unmarshal(raw, &plugins); len(plugins) == 0 {
			return ""
		}
		plugin = plugins[0]
	}
	_ = json.Unmarshal(plugin["ipam"], &ipam)
	kind := "static"
	_ = json.Unmarshal(ipam["type"], &kind)
	for _, kept := range []string{"type", "routes", "dns"} {
		delete(ipam, kept)
	}
	if kind == "static" && len(ipam) == 0 {
		return ""
	}
	return fmt.Sprintf("this Network hands out the addresses: it uses only routes and dns of the ipam %q in spec.attachment.config", kind)
}

func setIPAM(plugin map[string]json.RawMessage) error {
	var kind string
	if err := json.Unmarshal(plugin["type"], &kind); err != nil || strings.TrimSpace(kind) == "" {
		return errors.New(`has no type, the name of a plugin such as "macvlan"`)
	}
	var given ipamConfig
	if raw, ok := plugin["ipam"]; ok {
		if err := json.Unmarshal(raw, &given); err != nil {
			return fmt.Errorf("has an unreadable ipam (only its routes and dns count): %w", err)
		}
	}
	able := map[string]bool{}
	if raw, ok := plugin["capabilities"]; ok {
		if err := json.Unmarshal(raw, &able); err != nil {
			return fmt.Errorf(`has unreadable capabilities, expected for example {"mac":true}: %w`, err)
		}
	}
	if able == nil { // null
		able = map[string]bool{}
	}
	for key, value := range capabilities {
		able[key] = value
	}
	given.Type = "static"
	plugin["ipam"] = json.RawMessage(text(given))
	plugin["capabilities"] = json.RawMessage(text(able))
	return nil
}

// text marshals values that JSON can always represent.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("writing %T as JSON: %v", v, err))
	}
	return string(out)
}
