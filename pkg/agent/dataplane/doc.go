// Package dataplane has the records of the cluster that the agent reads, and decides which filters and routes the
// kernel of a node needs. They lead packets of pods out of each Overlay Network, and keep all other packets out of it.
// The paths between pods are the tables of package tables.
//
//	pod 192.168.0.2 -- from_port, NAT to 100.64.0.17 --> pod2gw -- routes, filter and NAT of the node --> outside
//	                   from_gateway, NAT back <-- pod2gwp ======= pod2gw, 100.64.0.0/16 <-- answers
//
// pod2gw and pod2gwp are one pair of veths for all Networks. Both ends are in the namespace of the node.
package dataplane
