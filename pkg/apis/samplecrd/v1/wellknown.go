package v1

// What pods carry. The keys are part of the API: admission policies, CNI
// plugins and people read them.
const (
	// NetworksAnnotation is the request, written by the user or by a Pod2:
	// "blue, green@net1=10.1.0.10". It counts once, when the addresses are bound.
	NetworksAnnotation = "samplecrd.k8s.io/networks"

	// Pod2RequestAnnotation is the request as the Pod2 wrote it into a replica. It
	// tells whether the replica is as one created now would be, whatever a policy
	// or a person made of NetworksAnnotation since.
	Pod2RequestAnnotation = "samplecrd.k8s.io/pod2-request"

	// Pod2LabelsAnnotation, on a replica, is the labels that the Pod2's own metadata gave it
	// last: JSON {"team":"db"}. When the labels of the Pod2 are other ones, the replica is
	// given those, and loses the ones that the Pod2 has no more.
	Pod2LabelsAnnotation = "samplecrd.k8s.io/pod2-labels"

	// RevisionNetworksAnnotation, on a ControllerRevision, is what its networks have
	// besides their names: JSON, a list as that in its data. It is written where the
	// data has names alone, as earlier releases wrote it for every Network.
	RevisionNetworksAnnotation = "samplecrd.k8s.io/revision-networks"

	// AddressesAnnotation is the answer, written once by the controller: JSON
	// from Network name to address with prefix length, gateway and MAC. In a gated
	// pod, which a restore from a backup created, it asks for these addresses.
	AddressesAnnotation = "samplecrd.k8s.io/addresses"

	// AddressesGate is the scheduling gate of a pod that must not be scheduled
	// before its addresses are bound (KEP-3521).
	AddressesGate = "samplecrd.k8s.io/addresses"

	// MultusAnnotation is read by Multus; we append our elements to it.
	MultusAnnotation = "k8s.v1.cni.cncf.io/networks"

	// MultusDefaultAnnotation is read by Multus: what is to be eth0 of the pod, instead
	// of the cluster's network.
	MultusDefaultAnnotation = "v1.multus-cni.io/default-network"

	// InPlaceAnnotation, on a replica, is what its last update in place restarts:
	// JSON {"containers":{"app":{"id":"<containerID before>","image":"<image before>"}}}.
	// Until the containerID is another, the container is not the new one, whatever the
	// status says; unless the pod has the image from before. With "resizing":true other
	// resources were asked for, and the label of the revision does not tell which.
	InPlaceAnnotation = "samplecrd.k8s.io/in-place-update"

	// ManagedLabel, with the value "true", is what the controller's pod watch
	// selects on, so that it need not stream all pods of a cluster.
	ManagedLabel = "samplecrd.k8s.io/managed"

	// Pod2Label is the name of the Pod2 a replica belongs to, and a Service or an
	// EndpointSlice with its addresses.
	Pod2Label = "samplecrd.k8s.io/pod2"
	// PodIndexLabel is the ordinal of a replica.
	PodIndexLabel = "samplecrd.k8s.io/pod-index"
	// PodTemplateHashLabel is the hash of the template a replica was made from.
	PodTemplateHashLabel = "samplecrd.k8s.io/pod-template-hash"

	// NetworkLabel, on the Services and EndpointSlices of a Pod2, is the Network
	// whose addresses they have; on a NetworkAttachmentDefinition, the one that has it.
	NetworkLabel = "samplecrd.k8s.io/network"

	// InUseFinalizer keeps a Network until no pod holds an address of it, and a
	// block until it is sealed.
	InUseFinalizer = "samplecrd.k8s.io/in-use"

	// GatewayAnnotation, on a Network, is the gateway chosen for it when it was new,
	// "" for none. It is written with the finalizer, before any pod learns of the
	// gateway, and outlives a lost status (a restore from a backup), before which it
	// counts for nothing.
	GatewayAnnotation = "samplecrd.k8s.io/gateway"

	// NetworkUIDAnnotation, on a Network, is the UID that the Network had when it
	// began to hand out addresses. The controller writes it before the first of them.
	// A Network whose UID is another was restored from a backup.
	NetworkUIDAnnotation = "samplecrd.k8s.io/network-uid"

	// AllowDeletionAnnotation, with the value "true", on a Network, allows its
	// deletion while pods hold its addresses. Without it the policy
	// pod2-networks of artifacts/ refuses that.
	AllowDeletionAnnotation = "samplecrd.k8s.io/allow-deletion"

	// ReleaseAnnotation, on a Network, is a list of entries of its AddressBlocks, in
	// JSON, whose reservations shall end: of replicas that their owners were scaled
	// down from. An entry that is not, to the letter, as the list has it stays.
	// `kubectl pod2 release` writes it; the controller leaves it where it is.
	ReleaseAnnotation = "samplecrd.k8s.io/release"

	// InheritedAnnotation, on a block, is the time (RFC 3339) at which a Network
	// inherited the block after a restore. Entries that are Reserved since then are
	// kept for an hour, whether or not their owner exists.
	InheritedAnnotation = "samplecrd.k8s.io/inherited"

	// SurgeClaimAnnotation, with the value "true", is on a claim that was made for a
	// surge replica: it goes with it, unless the ordinal becomes a replica's.
	SurgeClaimAnnotation = "samplecrd.k8s.io/surge-claim"

	// BackoffAnnotation, on a Pod2, is how often each replica failed of late and
	// when: JSON written by the controller, so that a restart does not forget.
	BackoffAnnotation = "samplecrd.k8s.io/backoff"
)

// Conditions, of Networks, Pod2s and pods.
const (
	// ConditionReady, on Networks and Pod2s.
	ConditionReady = "Ready"
	// ConditionAvailable and ConditionProgressing, on Pod2s.
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	// ConditionClaimsResized, on Pod2s with volumeClaimTemplates.
	ConditionClaimsResized = "ClaimsResized"
	// ConditionExhausted, on Networks.
	ConditionExhausted = "Exhausted"
	// ConditionAttachable, on Networks: Multus can attach pods to it, or the reason
	// why not.
	ConditionAttachable = "Attachable"
	// ConditionGrown, on Networks whose CIDR grew while pods ran that cannot reach all
	// of it: False with their names, True once they were replaced.
	ConditionGrown = "Grown"
	// ConditionNetworkDNS, on Pod2s that are on Networks: the replicas have their
	// names there, or the reason why not; Unknown while no replica has an address.
	ConditionNetworkDNS = "NetworkDNS"
	// ConditionAddressesBound, on pods that had to wait for their addresses:
	// False with the reason, True once they are bound.
	ConditionAddressesBound = "samplecrd.k8s.io/AddressesBound"
	// ConditionDataPlaneReady, on Nodes on which pod2-agent runs: the kernel has all
	// that Networks want of it, or who knows the reason why not.
	ConditionDataPlaneReady = "samplecrd.k8s.io/DataPlaneReady"
)
