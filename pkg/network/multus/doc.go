// Package multus decides how Multus attaches pods to a Network: which VXLAN
// Network Identifier the Network has, and what its NetworkAttachmentDefinition says.
//
//	Network blue of namespace default
//
//	VNI 1180673                            cluster-wide; whoever creates it has the number
//	Network blue, status.vni 1180673       after that; agents go by it
//	NetworkAttachmentDefinition blue       bridge nw1180673, the addresses from the pod's annotation
//
// A Network keeps its VNI for as long as it exists, and a VNI outlives its Network:
// it is deleted once a live read has said that this incarnation of the Network is
// gone. Two Networks never have one number, then, whoever creates when: the name of
// a VNI is the number. That one Network has two for a moment, where two controllers
// tried different numbers, harms nobody else; the status says which one counts.
//
// A definition of that name that is not ours is left alone.
package multus
