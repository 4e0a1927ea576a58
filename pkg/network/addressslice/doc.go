// Package addressslice decides which AddressSlices the agents get: the addresses of each
// Overlay Network and the nodes that they are on, and the addresses of the nodes.
//
//	Network blue, pods on 70 addresses
//
//	AddressSlice blue-0    the properties of the Network, and 50 addresses
//	AddressSlice blue-1    20 addresses
//
// An address stays in its AddressSlice while its pod runs, so a change of one pod is a change
// of one AddressSlice, and agents read only that one again. New addresses fill the
// AddressSlices that change anyway, then those with room for the rest, then the fullest ones.
// An empty AddressSlice is deleted, except the one with the properties: it comes before the
// first pod, so a pod can start on a node without waiting for the controller.
//
// No promise about addresses rests on AddressSlices. They only say where packets go, and they
// lag behind. A node delivers a packet only to a pod that its own record knows.
package addressslice
