package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Version of the protocol.
const Version = 1

// MaxMessage is the limit for a request and for a response, in bytes.
const MaxMessage = 64 << 10

// DefaultSocket is the path of the agent's socket on a node.
const DefaultSocket = "/run/pod2-agent/cni.sock"

// The commands of a request are those of the CNI specification.
const (
	add    = "ADD"
	del    = "DEL"
	check  = "CHECK"
	status = "STATUS"
	gc     = "GC"
)

// The codes of an Error. Those below 100 and CodeInternal are codes of the CNI specification.
const (
	CodeTryAgainLater = 11
	CodeUnavailable   = 50
	// CodeRefused: the pod may not have this attachment.
	CodeRefused = 100
	// CodeIncompatible: the other side has another version of the protocol.
	CodeIncompatible = 101
	// CodeInvalid: the request is not one of the protocol.
	CodeInvalid  = 102
	CodeInternal = 999
)

// Error is a failure that the plugin shows to the container runtime.
type Error struct {
	Code    uint   `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an Error with that code.
func Errorf(code uint, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// ID names an interface of a pod, as the container runtime does.
type ID struct {
	ContainerID string `json:"containerID,omitempty"`
	Interface   string `json:"interface,omitempty"`
}

// Pod is the pod that the container runtime named.
type Pod struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Attachment of a pod to a Network, as the container runtime asks for it. Nothing in it is trusted.
type Attachment struct {
	ID

	// Network is the name of the CNI configuration: "<namespace>.<name>" of the Network.
	Network string `json:"network,omitempty"`
	// Pod is zero for DEL if the runtime did not name it.
	Pod Pod `json:"pod,omitzero"`
	// IPs and MAC are set if the runtime gave them.
	IPs []netip.Prefix `json:"ips,omitempty"`
	MAC string         `json:"mac,omitempty"`
}

// Route of a pod's interface. Without a gateway, the destination is on the link.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway,omitzero"`
}

// Result says how a pod was attached.
type Result struct {
	HostInterface string       `json:"hostInterface"`
	MAC           string       `json:"mac"`
	MTU           int          `json:"mtu"`
	Address       netip.Prefix `json:"address"`
	Gateway       netip.Addr   `json:"gateway,omitzero"`
	Routes        []Route      `json:"routes,omitempty"`
}

type request struct {
	Version int    `json:"version"`
	Command string `json:"command"`
	Attachment

	Valid []ID `json:"validAttachments,omitempty"`
}

type response struct {
	Version int     `json:"version"`
	Error   *Error  `json:"error,omitempty"`
	Result  *Result `json:"result,omitempty"`
}

// needsNamespace says whether a request carries a descriptor.
func (r request) needsNamespace() bool { return r.Command == add || r.Command == check }

// decodeRequest reads a request of this version. Fields of another one may not fit, but its number comes first.
func decodeRequest(line []byte) (request, *Error) {
	var r request
	err := json.Unmarshal(line, &r)
	if r.Version != Version && (r.Version != 0 || err == nil) {
		return request{}, Errorf(CodeIncompatible, "pod2-agent uses version %d of its protocol, and pod2-cni sent version %d: install the pod2-cni of the same release on this node", Version, r.Version)
	}
	if err != nil {
		return request{}, Errorf(CodeInvalid, "pod2-agent cannot read the request of pod2-cni: %v", err)
	}
	return r, r.validate()
}

// validate checks the form of the fields that name things in the kernel.
func (r request) validate() *Error {
	switch r.Command {
	case status, gc:
		for _, id := range r.Valid {
			if err := id.validate(); err != nil {
				return err
			}
		}
		return nil
	case add, check, del:
		if r.Network == "" || len(r.Network) > 253 {
			return Errorf(CodeInvalid, "the name of the network has %d bytes: it must have 1 to 253", len(r.Network))
		}
		return r.ID.validate()
	}
	return Errorf(CodeInvalid, "pod2-agent does not know the command %.20q", r.Command)
}

// maxInterface is Linux' IFNAMSIZ without the zero at the end.
const maxInterface = 15

func (id ID) validate() *Error {
	if id.ContainerID == "" || len(id.ContainerID) > 128 || strings.ContainsFunc(id.ContainerID, func(c rune) bool { return c <= ' ' || c == '/' || c > '~' }) {
		return Errorf(CodeInvalid, "container ID %.140q: must have 1 to 128 printable characters without '/'", id.ContainerID)
	}
	n := id.Interface
	if n == "" || len(n) > maxInterface || n == "." || n == ".." || n == "lo" || strings.ContainsFunc(n, func(c rune) bool { return c <= ' ' || c == '/' || c == ':' || c > '~' }) {
		return Errorf(CodeInvalid, "interface %.20q: must have 1 to %d printable characters without '/' and ':', and not be lo", n, maxInterface)
	}
	return nil
}

// InterfacePrefix begins the name of every interface that the agent makes on the node for a pod.
const InterfacePrefix = "pod2"

// HostInterface is the name of the interface on the node. It depends on nothing else, so it
// can be found again after a restart.
func (id ID) HostInterface() string {
	sum := sha256.Sum256([]byte(id.ContainerID + "/" + id.Interface))
	return InterfacePrefix + hex.EncodeToString(sum[:])[:maxInterface-len(InterfacePrefix)]
}

// IsHostInterface says whether HostInterface could have returned the name.
func IsHostInterface(name string) bool {
	digits, ok := strings.CutPrefix(name, InterfacePrefix)
	return ok && len(name) == maxInterface && strings.Trim(digits, "0123456789abcdef") == ""
}
