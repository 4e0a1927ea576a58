package v1

// Annotations, labels, finalizers and the scheduling gate. The keys are part of the API:
// admission policies, CNI plugins and people read them.
const (
	// NetworksAnnotation is the request, written by the user or by a Pod2:
	// "blue, green@net1=10.1.0.10". It is read once, when the addresses are bound.
	NetworksAnnotation = "samplecrd.k8s.io/networks"

	// Pod2RequestAnnotation is the request that the Pod2 wrote into a replica. It shows
	// whether the replica is like one created now, even if a policy or a user has changed
	// NetworksAnnotation since.
	Pod2RequestAnnotation = "samplecrd.k8s.io/pod2-request"

	// Pod2LabelsAnnotation, on a replica, records the labels that it last got from the Pod2's
	// own metadata: JSON {"team":"db"}. If the labels of the Pod2 differ, the controller sets
	// them on the replica, and removes those that the Pod2 no longer has.
	Pod2LabelsAnnotation = "samplecrd.k8s.io/pod2-labels"

	// RevisionNetworksAnnotation, on a ControllerRevision, records everything about its
	// networks except their names: JSON, a list in the format of the revision's data. It is
	// written if the data has only names, as earlier releases wrote them for every Network.
	RevisionNetworksAnnotation = "samplecrd.k8s.io/revision-networks"

	// AddressesAnnotation is the answer, written once by the controller: JSON from Network
	// name to address with prefix length, gateway and MAC. In a gated pod that a restore from
	// a backup created, it asks for these addresses.
	AddressesAnnotation = "samplecrd.k8s.io/addresses"

	// AddressesGate is the scheduling gate of a pod that must not be scheduled before its
	// addresses are bound (KEP-3521).
	AddressesGate = "samplecrd.k8s.io/addresses"

	// MultusAnnotation is read by Multus. The controller appends its elements to it.
	MultusAnnotation = "k8s.v1.cni.cncf.io/networks"

	// MultusDefaultAnnotation is read by Multus. It names the network that becomes the pod's
	// eth0, instead of the cluster's network.
	MultusDefaultAnnotation = "v1.multus-cni.io/default-network"

	// InPlaceAnnotation, on a replica, records the containers that its last update in place
	// restarts: JSON
	// {"containers":{"app":{"id":"<containerID before>","image":"<image before>"}}}. While the
	// containerID is unchanged, the container is still the old one, whether or not the status
	// says so. The exception is a pod that has the old image again. With "resizing":true,
	// other resources were requested, and the label of the revision does not show which.
	InPlaceAnnotation = "samplecrd.k8s.io/in-place-update"

	// SidecarsAnnotation, on a pod, names the Sidecars that were added to it, each with its
	// generation, then the numbers of its init containers before and after those of the pod,
	// and of its containers: "logs=1/0/0/1,mesh=4/1/0/1". The policy pod2-sidecars writes it.
	SidecarsAnnotation = "samplecrd.k8s.io/sidecars"

	// SidecarProbeAnnotation, on a pod of a dry run, names a Sidecar. The pod gets its latest
	// generation, whether or not it is Ready.
	SidecarProbeAnnotation = "samplecrd.k8s.io/sidecar-probe"

	// SidecarsLabel, with the value "enabled", on a namespace, lets Sidecars be added to its
	// pods. On a pod, the value "disabled" leaves out all Sidecars.
	SidecarsLabel = "samplecrd.k8s.io/sidecars"

	// MaxSidecars is how many Sidecars of a namespace can be Ready.
	MaxSidecars = 20

	// ManagedLabel, with the value "true", selects the pods that the controller watches, so it
	// need not stream all pods of a cluster.
	ManagedLabel = "samplecrd.k8s.io/managed"

	// Pod2Label is the name of a Pod2, on its replicas, and on the Services and EndpointSlices
	// that have its addresses.
	Pod2Label = "samplecrd.k8s.io/pod2"
	// PodIndexLabel is the ordinal of a replica.
	PodIndexLabel = "samplecrd.k8s.io/pod-index"
	// PodTemplateHashLabel is the hash of the template from which a replica was created.
	PodTemplateHashLabel = "samplecrd.k8s.io/pod-template-hash"

	// NetworkLabel, on the Services and EndpointSlices of a Pod2, is the Network whose
	// addresses they have. On a NetworkAttachmentDefinition, it is the Network that owns the
	// definition. On an AddressSlice, it is the Network whose addresses it has.
	NetworkLabel = "samplecrd.k8s.io/network"

	// NodesLabel, with the value "true", selects the AddressSlices that have the addresses of
	// nodes.
	NodesLabel = "samplecrd.k8s.io/nodes"

	// InUseFinalizer keeps a Network until no pod holds an address of it, and an AddressBlock
	// until it is sealed.
	InUseFinalizer = "samplecrd.k8s.io/in-use"

	// GatewayAnnotation, on a Network, is the gateway chosen for it when it was new, "" for
	// none. It is written with the finalizer, before any pod learns of the gateway. It
	// outlives a status that a restore from a backup lost. While the Network has a status, the
	// annotation has no effect. Nor has an address that no host of the Network can have.
	GatewayAnnotation = "samplecrd.k8s.io/gateway"

	// NetworkUIDAnnotation, on a Network, is the UID that the Network had when it began to
	// hand out addresses. The controller writes it before the first of them. If the UID of a
	// Network differs, the Network was restored from a backup.
	NetworkUIDAnnotation = "samplecrd.k8s.io/network-uid"

	// AllowDeletionAnnotation, with the value "true", on a Network, allows its deletion while
	// pods hold its addresses. Without it, the policy pod2-networks of artifacts/ refuses the
	// deletion.
	AllowDeletionAnnotation = "samplecrd.k8s.io/allow-deletion"

	// ReleaseAnnotation, on a Network, is a list of AddressBlock entries, in JSON. The
	// controller ends these reservations, which must be of scaled-down replicas. It ignores an
	// entry that differs in any way from the one in the list. `kubectl pod2 release` writes
	// the annotation; the controller does not remove it.
	ReleaseAnnotation = "samplecrd.k8s.io/release"

	// InheritedAnnotation, on an AddressBlock, is the time (RFC 3339) at which a Network
	// inherited it after a restore. Entries that are Reserved since then are kept for an hour,
	// whether or not their owner exists.
	InheritedAnnotation = "samplecrd.k8s.io/inherited"

	// SurgeClaimAnnotation, with the value "true", marks a PVC that was created for a surge
	// replica. The PVC is deleted with the replica, unless its ordinal becomes a replica's.
	SurgeClaimAnnotation = "samplecrd.k8s.io/surge-claim"

	// BackoffAnnotation, on a Pod2, records how often each replica failed recently, and when.
	// The controller writes it in JSON, so a restart does not lose it.
	BackoffAnnotation = "samplecrd.k8s.io/backoff"
)

// Conditions of Networks, Pod2s, Sidecars, pods and Nodes.
const (
	// ConditionReady, on Networks, Pod2s and Sidecars.
	ConditionReady = "Ready"
	// ConditionAvailable and ConditionProgressing, on Pod2s.
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	// ConditionClaimsResized, on Pod2s with volumeClaimTemplates.
	ConditionClaimsResized = "ClaimsResized"
	// ConditionAddressesAvailable, on Networks. It is False with the names of pods that wait
	// because no address is free, and Unknown while the Network serves no new pod.
	ConditionAddressesAvailable = "AddressesAvailable"
	// ConditionAttachable, on Networks. It says whether Multus can attach pods to it.
	ConditionAttachable = "Attachable"
	// ConditionGrown, on Networks whose CIDR grew while pods ran that cannot reach all of it.
	// It is False with their names, and True once they have been replaced.
	ConditionGrown = "Grown"
	// ConditionDNSPublished, on Pod2s that are on Networks. It says whether the replicas have
	// their DNS names there, and is Unknown while no replica has an address.
	ConditionDNSPublished = "DNSPublished"
	// ConditionUpdated, on Sidecars whose new images the API server refuses for a running pod.
	// It is False with the answer, and removed once an update succeeds or none is needed.
	ConditionUpdated = "Updated"
	// ConditionAddressesBound, on pods that had to wait for their addresses. It is False with
	// the reason, and then True once they are bound.
	ConditionAddressesBound = "samplecrd.k8s.io/AddressesBound"
)
