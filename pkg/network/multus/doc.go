// Package multus decides how Multus attaches pods to a Network. It chooses the VXLAN Network
// Identifier of the Network and writes its NetworkAttachmentDefinition.
//
//	Network blue of namespace default
//
//	VNI 1180673                            cluster-wide; the Network that creates it has the number
//	Network blue, status.vni 1180673       written after that; agents use it
//	NetworkAttachmentDefinition blue       plugin pod2-cni, the addresses from the pod's annotation
//
// A Network keeps its VNI while it exists, and a VNI outlives its Network. A VNI is
// deleted only after a live read says that the Network with this UID is gone. So two
// Networks never have the same number, in any order of writes, because the number is the
// name of the VNI. If two controllers try different numbers, one Network briefly has two.
// This affects no other Network, and the status says which number counts.
//
// The package leaves a definition with the Network's name alone if it has another owner.
package multus
