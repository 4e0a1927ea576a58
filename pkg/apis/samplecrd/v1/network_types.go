package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Network is a declared secondary network: a CIDR, a gateway, and a ledger of
// who holds which address. Any pod of its namespace joins it by naming it in
// the annotation samplecrd.k8s.io/networks. Networks are isolated from one
// another, so two of them may have the same CIDR.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=networks,singular=network,shortName=net,scope=Namespaced
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, sample project"
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="GATEWAY",type=string,JSONPath=`.status.gateway`
// +kubebuilder:printcolumn:name="BOUND",type=integer,JSONPath=`.status.bound`
// +kubebuilder:printcolumn:name="AVAILABLE",type=integer,JSONPath=`.status.available`
// +kubebuilder:printcolumn:name="RESERVED",type=integer,JSONPath=`.status.reserved`,priority=1
// +kubebuilder:printcolumn:name="RESTING",type=integer,JSONPath=`.status.resting`,priority=1
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXHAUSTED",type=string,JSONPath=`.status.conditions[?(@.type=="Exhausted")].status`,priority=1
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.status.vni`,priority=1
// +kubebuilder:printcolumn:name="ATTACHABLE",type=string,JSONPath=`.status.conditions[?(@.type=="Attachable")].status`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a Network is a DNS label: lower-case letters, digits and '-', at most 63 characters",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.spec.gateway) ? (has(self.spec.gateway) ? (self.spec.gateway == oldSelf.spec.gateway || (has(oldSelf.status) && has(oldSelf.status.observedGeneration) && !has(oldSelf.status.gateway) && !has(oldSelf.status.cidrs))) : (has(oldSelf.status) && has(oldSelf.status.gateway) && oldSelf.status.gateway == oldSelf.spec.gateway)) : (!has(self.spec.gateway) || (has(oldSelf.status) && has(oldSelf.status.gateway) && oldSelf.status.gateway == self.spec.gateway))",message="never moves: pods have it in their routes. Create another Network instead",fieldPath=".spec.gateway"
type Network struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NetworkSpec `json:"spec"`
	// What the controller found; written by it alone.
	// +optional
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkSpec declares which addresses a Network has to give.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).containsIP(self.gateway)",message="gateway lies outside cidr",fieldPath=".gateway"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || (oldSelf.hasValue() && has(oldSelf.value().gateway) && oldSelf.value().gateway == self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).prefixLength() >= (cidr(self.cidr).ip().family() == 4 ? 31 : 127) || !self.cidr.startsWith(self.gateway + '/')",message="gateway is the network address of cidr (IPv6: the subnet-router anycast address)",fieldPath=".gateway",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || (oldSelf.hasValue() && has(oldSelf.value().gateway) && oldSelf.value().gateway == self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).ip().family() != 4 || ip(self.gateway).family() != 4 || cidr(self.cidr).prefixLength() >= 31 || !cidr(self.cidr).containsIP(self.gateway) || ![8,16,24,32].all(end, (int(self.gateway.split('.')[end / 8 - 1]) + 1) % [1,2,4,8,16,32,64,128,256][end - cidr(self.cidr).prefixLength() < 0 ? 0 : (end - cidr(self.cidr).prefixLength() > 8 ? 8 : end - cidr(self.cidr).prefixLength())] == 0)",message="gateway is the broadcast address of cidr",fieldPath=".gateway",optionalOldSelf=true
type NetworkSpec struct {
	// The addresses of the Network, IPv4 or IPv6, in canonical form: no host
	// bits, "10.1.0.0/16" and not "10.1.2.3/16". It may only grow: a new value
	// must contain the old one, and pods that run keep the prefix length they
	// started with. What was the network or broadcast address is never handed
	// out after the growth, because pods run with it. A /31, a /32 and a /127
	// cannot grow: pods hold what would become the network or broadcast
	// address. Loopback, link-local and multicast are refused, because
	// EndpointSlices refuse them. IPv6 goes down to /127.
	//
	// Not handed out: the network and the broadcast address (IPv4 up to /30),
	// the subnet-router anycast address (IPv6 up to /126, RFC 4291), the
	// gateway, what exclude names, and what was the network or broadcast address
	// before cidr grew. A /31 (RFC 3021) and a /127 (RFC 6164)
	// have neither network nor broadcast address.
	//
	// A Network that overlaps addresses which the cluster uses itself (those of
	// Services, of Nodes and of the cluster's pods) hands out none, unless
	// exclude names them: see the condition Ready, reason OverlapsCluster.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="not a CIDR such as 10.1.0.0/16 or 2001:db8::/64"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || string(cidr(self).masked()) == self",message="not canonical: write it without host bits and, for IPv6, in its shortest lower-case form"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).ip().family() == 4 || cidr(self).prefixLength() <= 127",message="an IPv6 CIDR has a prefix length of at most 127"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || ['0.0.0.0/8','127.0.0.0/8','169.254.0.0/16','224.0.0.0/4','::/127','fe80::/10','ff00::/8'].all(r, !cidr(r).containsCIDR(self) && !cidr(self).containsCIDR(r))",message="overlaps loopback (127.0.0.0/8, ::1), link-local (169.254.0.0/16, fe80::/10), multicast (224.0.0.0/4, ff00::/8) or unspecified (0.0.0.0/8, ::) addresses"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).containsCIDR(oldSelf)",message="may only grow: the new CIDR must contain the old one"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || !isCIDR(oldSelf) || cidr(oldSelf).prefixLength() < (cidr(oldSelf).ip().family() == 4 ? 31 : 127)",message="a /31, /32 or /127 cannot grow: pods hold what would become the network or broadcast address. Create another Network instead"
	CIDR string `json:"cidr"`

	// The address of the router, inside cidr; it is written into what pods
	// publish and handed out to none of them. Default: the first usable
	// address; a /32, whose one address is for a pod, has none. It must be an
	// address that a host can have, not the network or broadcast address. It
	// never moves: left unset, it stays where it was when cidr grows. Once
	// status.gateway shows it, you can leave it out or write it again. Only a
	// gateway that the controller refused (see the condition Ready) can be
	// corrected.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="not an IP address in canonical form"
	Gateway string `json:"gateway,omitempty"`

	// Addresses never handed out anew: CIDRs ("192.168.0.0/24"), ranges
	// ("192.168.7.10-192.168.7.99") or single addresses. One that is in use
	// when it is excluded stays in use. The condition Ready names those outside
	// cidr, which have no effect until cidr contains them. If no address is left,
	// Ready is False.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Exclude []AddressRange `json:"exclude,omitempty"`

	// onRequest sets addresses aside for pods that ask for them by name: they
	// are never handed out to a pod that asks for any address. It is written
	// like exclude. A pod that holds such an address, or a replica that it is
	// reserved for, keeps it. Addresses that are excluded too stay excluded.
	// Defaults to none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	OnRequest []AddressRange `json:"onRequest,omitempty"`

	// How long, in seconds, an address rests after its pod is over before
	// another pod gets it. A pod of the same name and owner gets it at once.
	// Default 60.
	//
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	ReuseDelaySeconds *int32 `json:"reuseDelaySeconds,omitempty"`

	// How Multus attaches pods to the Network: by a
	// NetworkAttachmentDefinition of its name. In a cluster without Multus a
	// Network is a ledger of addresses and no more.
	//
	// +optional
	// +default={"type":"Overlay"}
	Attachment *NetworkAttachment `json:"attachment,omitempty"`

	// How packets leave an Overlay Network through its gateway, where pod2-agent
	// runs: NAT, as the node that the pod runs on, or None, not at all. Neither
	// reaches the nodes themselves or the API server. Default NAT.
	//
	// +optional
	// +default="NAT"
	Egress EgressMode `json:"egress,omitempty"`

	// The largest packet that pods send through an Overlay, in bytes. Default:
	// what the network of the nodes takes (the controller's --underlay-mtu, 1500)
	// less 50 for VXLAN's headers over IPv4. Pods keep what they started with, and
	// nodes change at once: make it smaller, and the largest packets of pods that
	// run are lost between nodes until those pods are replaced.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
}

// AttachmentType says who brings a Network to its pods.
//
// +enum
// +kubebuilder:validation:Enum=Overlay;CNI
type AttachmentType string

const (
	// AttachmentOverlay is by the CNI plugin `bridge`, each Network a bridge on
	// each node, named nw<status.vni>. Whatever joins the bridges of the nodes
	// finds the number there for its VXLAN (RFC 7348).
	AttachmentOverlay AttachmentType = "Overlay"
	// AttachmentCNI is by the plugin of NetworkAttachment.Config.
	AttachmentCNI AttachmentType = "CNI"
)

// EgressMode says how packets leave a Network.
//
// +enum
// +kubebuilder:validation:Enum=NAT;None
type EgressMode string

const (
	// EgressNAT is as the node they leave from.
	EgressNAT EgressMode = "NAT"
	// EgressNone is not at all.
	EgressNone EgressMode = "None"
)

// NetworkAttachment says how a pod is attached to a Network.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="the type of an attachment never changes: pods run with it. Create another Network instead",fieldPath=".type"
// +kubebuilder:validation:XValidation:rule="(self.type == 'CNI') == has(self.config)",message="config goes with type CNI, and CNI with a config",fieldPath=".config"
type NetworkAttachment struct {
	// Overlay: a bridge of its own on each node. CNI: what config says, such as
	// macvlan on a network that the nodes are on. It never changes.
	//
	// Overlays are isolated from each other. Networks of type CNI are isolated
	// as far as their wires are: each Network hands out its own addresses, and
	// two of one wire whose addresses overlap give one IP and one MAC address
	// to two pods. The condition Attachable has the reason SharedWire then.
	//
	// +optional
	// +default="Overlay"
	Type AttachmentType `json:"type,omitempty"`

	// A CNI network configuration in JSON, a plugin or a list of plugins, as a
	// NetworkAttachmentDefinition has it. Of its ipam, only routes and dns are
	// used: the Network hands out the addresses. The condition Attachable says
	// so if more is given. A plugin runs as root on the nodes, so that
	// only who may create NetworkAttachmentDefinitions in the namespace may write
	// this.
	//
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=16384
	Config string `json:"config,omitempty"`
}

// AddressRange is a CIDR without host bits, a range "first-last" of one
// family, or one address.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=79
// +kubebuilder:validation:XValidation:rule="isIP(self) || (isCIDR(self) && cidr(self).masked() == cidr(self)) || (self.split('-').size() == 2 && self.split('-').all(a, isIP(a)) && ip(self.split('-')[0]).family() == ip(self.split('-')[1]).family())",message="not a CIDR without host bits (192.168.0.0/24), a range (192.168.7.10-192.168.7.99) or an address"
type AddressRange string

// NetworkStatus counts the addresses of a Network. All counts are of single
// addresses. While nothing but numbers changes, it is written four times a
// second at most.
type NetworkStatus struct {
	// Addresses that may be handed out: those of cidr less network, broadcast,
	// gateway and excluded ones, and less those that were network or broadcast
	// before cidr grew. Those of onRequest count. At most
	// 2147483647, which also stands for more.
	// +optional
	Capacity int64 `json:"capacity"`
	// Addresses that pods hold.
	// +optional
	Bound int64 `json:"bound"`
	// Addresses kept for replicas (of Pod2s and StatefulSets) that are away
	// just now.
	// +optional
	Reserved int64 `json:"reserved"`
	// Freed addresses that wait for reuseDelaySeconds to pass.
	// +optional
	Resting int64 `json:"resting"`
	// available is the number of addresses that a new pod can get now if it asks
	// for any. It includes those reserved for scaled-down replicas once
	// reuseDelaySeconds have passed: they are handed out last. Those of onRequest
	// do not count. At most 2147483647, which also stands for more.
	// +optional
	Available int64 `json:"available"`
	// The gateway in force: spec.gateway, or the one chosen when the Network
	// was new. Empty for a /32.
	// +optional
	Gateway string `json:"gateway,omitempty"`
	// cidrs are the values of spec.cidr that pods may run with, smallest
	// first; the last one is in force. A pod gets its address once a CIDR that
	// contains it is listed here, with the prefix length of the last such
	// CIDR. The network and broadcast addresses of all of them are never
	// handed out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	CIDRs []string `json:"cidrs,omitempty"`
	// The VXLAN Network Identifier (RFC 7348) of an Overlay Network, which no
	// other Network of the cluster has: the name of its VNI.
	// +optional
	VNI int32 `json:"vni,omitempty"`
	// The generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready: addresses can be handed out. Exhausted: pods wait for an address
	// and none is free; the message names them. Attachable: Multus can attach pods
	// to the Network; its reason SharedWire names another Network that hands out
	// some of the same addresses on the same wire. Grown, only on a Network whose
	// cidr grew: no pod runs that must be replaced to reach all of it; while it is
	// False, the message names those pods.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkList is a list of Networks.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Network `json:"items"`
}
