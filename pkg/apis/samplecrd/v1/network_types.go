package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Network is a secondary network for pods: a CIDR, a gateway, and a record of
// which pod holds which address. A pod joins a Network of its namespace by
// naming it in the annotation samplecrd.k8s.io/networks. Networks are isolated
// from one another, so two of them may have the same CIDR.
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
// +kubebuilder:printcolumn:name="ADDRESSESAVAILABLE",type=string,JSONPath=`.status.conditions[?(@.type=="AddressesAvailable")].status`,priority=1
// +kubebuilder:printcolumn:name="VNI",type=integer,JSONPath=`.status.vni`,priority=1
// +kubebuilder:printcolumn:name="ATTACHABLE",type=string,JSONPath=`.status.conditions[?(@.type=="Attachable")].status`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a Network must be a DNS label: lower-case letters, digits and '-', at most 63 characters",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.spec.gateway) ? (has(self.spec.gateway) ? (self.spec.gateway == oldSelf.spec.gateway || (has(oldSelf.status) && has(oldSelf.status.observedGeneration) && !has(oldSelf.status.gateway) && !has(oldSelf.status.cidrs))) : (has(oldSelf.status) && has(oldSelf.status.gateway) && oldSelf.status.gateway == oldSelf.spec.gateway)) : (!has(self.spec.gateway) || (has(oldSelf.status) && has(oldSelf.status.gateway) && oldSelf.status.gateway == self.spec.gateway))",message="gateway is immutable: pods have it in their routes. Create another Network instead",fieldPath=".spec.gateway"
type Network struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec declares the addresses of the Network, and how pods attach to it.
	// +required
	Spec NetworkSpec `json:"spec"`
	// status is the observed state of the Network. Only the controller writes it.
	// +optional
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkSpec declares which addresses a Network hands out, and how pods
// attach to it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).containsIP(self.gateway)",message="gateway must be inside cidr",fieldPath=".gateway"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || (oldSelf.hasValue() && has(oldSelf.value().gateway) && oldSelf.value().gateway == self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).prefixLength() >= (cidr(self.cidr).ip().family() == 4 ? 31 : 127) || !self.cidr.startsWith(self.gateway + '/')",message="gateway must not be the network address of cidr (IPv6: the subnet-router anycast address)",fieldPath=".gateway",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || (oldSelf.hasValue() && has(oldSelf.value().gateway) && oldSelf.value().gateway == self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).ip().family() != 4 || ip(self.gateway).family() != 4 || cidr(self.cidr).prefixLength() >= 31 || !cidr(self.cidr).containsIP(self.gateway) || ![8,16,24,32].all(end, (int(self.gateway.split('.')[end / 8 - 1]) + 1) % [1,2,4,8,16,32,64,128,256][end - cidr(self.cidr).prefixLength() < 0 ? 0 : (end - cidr(self.cidr).prefixLength() > 8 ? 8 : end - cidr(self.cidr).prefixLength())] == 0)",message="gateway must not be the broadcast address of cidr",fieldPath=".gateway",optionalOldSelf=true
type NetworkSpec struct {
	// cidr is the address range of the Network, IPv4 or IPv6. It must be in
	// canonical form, without host bits: "10.1.0.0/16", not "10.1.2.3/16". The
	// prefix length of an IPv6 range must be at most 127. cidr must not overlap
	// loopback, link-local, multicast or unspecified addresses, because
	// EndpointSlices refuse them.
	//
	// cidr may only grow: a new value must contain the old one. Running pods keep
	// the prefix length that they started with. The old network and broadcast
	// addresses are never handed out, because pods run with them. A /31, a /32 and
	// a /127 cannot grow, because pods hold the addresses that would become the
	// network or broadcast address.
	//
	// The controller never hands out the network and the broadcast address (IPv4
	// up to /30), the subnet-router anycast address (IPv6 up to /126, RFC 4291),
	// the gateway, and the addresses in exclude. A /31 (RFC 3021) and a /127 (RFC
	// 6164) have neither a network nor a broadcast address.
	//
	// If cidr overlaps addresses that the cluster itself uses (those of Services,
	// Nodes and the cluster's pods), exclude must list them. Otherwise the Network
	// hands out no address: the condition Ready has the reason OverlapsCluster.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a CIDR such as 10.1.0.0/16 or 2001:db8::/64"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || string(cidr(self).masked()) == self",message="must be canonical: without host bits and, for IPv6, in its shortest lower-case form"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).ip().family() == 4 || cidr(self).prefixLength() <= 127",message="the prefix length of an IPv6 CIDR must be at most 127"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || ['0.0.0.0/8','127.0.0.0/8','169.254.0.0/16','224.0.0.0/4','::/127','fe80::/10','ff00::/8'].all(r, !cidr(r).containsCIDR(self) && !cidr(self).containsCIDR(r))",message="must not overlap loopback (127.0.0.0/8, ::1), link-local (169.254.0.0/16, fe80::/10), multicast (224.0.0.0/4, ff00::/8) or unspecified (0.0.0.0/8, ::) addresses"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).containsCIDR(oldSelf)",message="may only grow: the new CIDR must contain the old one"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || !isCIDR(oldSelf) || cidr(oldSelf).prefixLength() < (cidr(oldSelf).ip().family() == 4 ? 31 : 127)",message="a /31, /32 or /127 cannot grow: pods hold addresses that would become the network or broadcast address. Create another Network instead"
	CIDR string `json:"cidr"`

	// gateway is the address of the router, which pods publish with their own
	// addresses. No pod gets it. It must be inside cidr, and must not be the
	// network or broadcast address. Defaults to the first usable address; a /32
	// has no gateway, because its one address is for a pod.
	//
	// gateway is immutable. If it is unset, the gateway does not change when cidr
	// grows. Once status.gateway shows the gateway, you may remove the field or
	// set it to that address. You can correct a gateway only if the controller
	// refused it (see the condition Ready).
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="must be an IP address in canonical form"
	Gateway string `json:"gateway,omitempty"`

	// exclude lists addresses that are never handed out: CIDRs ("192.168.0.0/24"),
	// ranges ("192.168.7.10-192.168.7.99") or single addresses. An address that is
	// in use when you exclude it stays in use. Entries outside cidr have no effect
	// until cidr contains them; the condition Ready names them. If no address is
	// left, Ready is False. Defaults to none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Exclude []AddressRange `json:"exclude,omitempty"`

	// onRequest sets addresses aside for pods that ask for them by name. A pod
	// that asks for any address never gets one of them. The format is that of
	// exclude. A pod that already holds such an address keeps it, and so does a
	// replica that the address is reserved for. If an address is also in exclude,
	// it is excluded. Defaults to none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	OnRequest []AddressRange `json:"onRequest,omitempty"`

	// reuseDelaySeconds is the number of seconds that an address rests after its
	// pod terminated, before another pod can get it. A pod with the same name and
	// owner gets it at once. Defaults to 60.
	//
	// +optional
	// +default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	ReuseDelaySeconds *int32 `json:"reuseDelaySeconds,omitempty"`

	// attachment controls how Multus attaches pods to the Network, through a
	// NetworkAttachmentDefinition with the same name. Without Multus in the
	// cluster, a Network only records addresses. Defaults to type Overlay.
	//
	// +optional
	// +default={"type":"Overlay"}
	Attachment *NetworkAttachment `json:"attachment,omitempty"`

	// egress controls traffic from an Overlay Network to the outside, through its
	// gateway, where pod2-agent runs. "NAT" masquerades it behind the address of
	// the pod's node; "None" blocks it. In both modes, pods cannot reach the nodes
	// themselves or the API server through it. Defaults to "NAT".
	//
	// +optional
	// +default="NAT"
	Egress EgressMode `json:"egress,omitempty"`

	// mtu is the size of the largest packet that pods send through an Overlay
	// Network, in bytes. Defaults to the MTU of the node network (pod2-agent's
	// --underlay-mtu, 1500) minus 50 for VXLAN's headers over IPv4.
	//
	// Nodes apply a change at once, but pods keep the MTU that they started with.
	// If you lower mtu, the largest packets of running pods are lost between nodes
	// until you replace those pods.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`

	// addressHistory bounds the record of earlier holders of the addresses, which
	// the controller keeps in AddressHistories. Defaults to 1000 records, for 30
	// days.
	//
	// +optional
	// +default={}
	AddressHistory *AddressHistoryBounds `json:"addressHistory,omitempty"`
}

// AddressHistoryBounds are the bounds of the record of earlier holders.
type AddressHistoryBounds struct {
	// limit is the number of records to keep. The controller deletes the oldest
	// records, up to a quarter of limit at once. 0 means that it keeps none.
	// Defaults to 1000.
	//
	// +optional
	// +default=1000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Limit *int32 `json:"limit,omitempty"`
	// maxAgeSeconds is the age at which a record may be deleted. The controller
	// deletes it when it is at most a quarter older. Defaults to 2592000, which is
	// 30 days.
	//
	// +optional
	// +default=2592000
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=315360000
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}

// AttachmentType names a way to attach pods to a Network.
//
// +enum
// +kubebuilder:validation:Enum=Overlay;CNI
type AttachmentType string

const (
	// AttachmentOverlay uses the CNI plugin pod2-cni. pod2-agent carries packets
	// between nodes in VXLAN (RFC 7348), with the number status.vni.
	AttachmentOverlay AttachmentType = "Overlay"
	// AttachmentCNI uses the plugin in NetworkAttachment.Config.
	AttachmentCNI AttachmentType = "CNI"
)

// EgressMode controls how packets leave a Network.
//
// +enum
// +kubebuilder:validation:Enum=NAT;None
type EgressMode string

const (
	// EgressNAT masquerades packets behind the address of the pod's node.
	EgressNAT EgressMode = "NAT"
	// EgressNone blocks packets.
	EgressNone EgressMode = "None"
)

// NetworkAttachment controls how pods are attached to a Network.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: pods run with it. Create another Network instead",fieldPath=".type"
// +kubebuilder:validation:XValidation:rule="(self.type == 'CNI') == has(self.config)",message="config is required if type is CNI, and must not be set otherwise",fieldPath=".config"
type NetworkAttachment struct {
	// type is "Overlay" or "CNI". "Overlay" connects the pods of all nodes by
	// VXLAN. "CNI" uses the plugin in config, such as macvlan on a network of the
	// nodes. type is immutable. Defaults to "Overlay".
	//
	// Overlay Networks are isolated from each other. Networks of type CNI are only
	// as isolated as their wires. Each Network hands out its own addresses. If two
	// Networks on one wire have overlapping addresses, two pods can get the same
	// IP and MAC address. The condition Attachable then has the reason SharedWire.
	//
	// +optional
	// +default="Overlay"
	Type AttachmentType `json:"type,omitempty"`

	// config is a CNI network configuration in JSON, as in a
	// NetworkAttachmentDefinition: a plugin or a list of plugins. It is required
	// if type is CNI, and must not be set otherwise. Only routes and dns of its
	// ipam are used, because the Network hands out the addresses. The condition
	// Attachable reports any other content of ipam.
	//
	// Plugins run as root on the nodes. So only users who may create
	// NetworkAttachmentDefinitions in the namespace may set this field.
	//
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=16384
	Config string `json:"config,omitempty"`
}

// AddressRange is a CIDR without host bits, a range "first-last" of one
// address family, or one address.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=79
// +kubebuilder:validation:XValidation:rule="isIP(self) || (isCIDR(self) && cidr(self).masked() == cidr(self)) || (self.split('-').size() == 2 && self.split('-').all(a, isIP(a)) && ip(self.split('-')[0]).family() == ip(self.split('-')[1]).family())",message="must be a CIDR without host bits (192.168.0.0/24), a range (192.168.7.10-192.168.7.99) or an address"
type AddressRange string

// NetworkStatus is the observed state of a Network. All counts are of single
// addresses. If only counts change, the controller writes the status at most
// twice a second.
type NetworkStatus struct {
	// capacity is the number of addresses that may be handed out. It does not
	// count the network and broadcast addresses of cidr and of its earlier values,
	// the gateway, and excluded addresses. It counts onRequest. A number above
	// 2147483647 is shown as 2147483647.
	// +optional
	Capacity int64 `json:"capacity"`
	// bound is the number of addresses that pods hold.
	// +optional
	Bound int64 `json:"bound"`
	// reserved is the number of addresses that are kept for replicas (of Pod2s and
	// StatefulSets) whose pods do not exist now.
	// +optional
	Reserved int64 `json:"reserved"`
	// resting is the number of freed addresses that wait until reuseDelaySeconds
	// have passed.
	// +optional
	Resting int64 `json:"resting"`
	// available is the number of addresses that a new pod can get now if it asks
	// for any address. Addresses of scaled-down replicas count once
	// reuseDelaySeconds have passed: they are handed out last. Addresses in
	// onRequest do not count. A number above 2147483647 is shown as 2147483647.
	// +optional
	Available int64 `json:"available"`
	// gateway is the gateway in use: spec.gateway, or the address that the
	// controller chose when the Network was new. Empty for a /32.
	// +optional
	Gateway string `json:"gateway,omitempty"`
	// cidrs lists the values of spec.cidr that pods may run with, smallest first.
	// The last one is in use. A pod gets an address only once this list has a CIDR
	// that contains it. The pod uses the prefix length of the last such CIDR. The
	// network and broadcast addresses of all these CIDRs are never handed out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	CIDRs []string `json:"cidrs,omitempty"`
	// vni is the VXLAN Network Identifier (RFC 7348) of an Overlay Network, unique
	// in the cluster. A VNI object has this number as its name.
	// +optional
	VNI int32 `json:"vni,omitempty"`
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are the latest observations of the Network's state. Ready: the
	// controller can hand out addresses. AddressesAvailable: no pod waits because
	// no address is free. While it is False, the message names the pods. It is
	// Unknown while the Network serves no new pod. Attachable: Multus can attach
	// pods to the Network. Its reason SharedWire means that another Network hands
	// out some of the same addresses on the same wire; the message names it. Grown
	// exists only if cidr grew: no running pod must be recreated to reach all of
	// cidr. While Grown is False, the message names the pods to recreate.
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
