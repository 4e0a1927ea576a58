// Package dataplane decides which gateways and firewall rules the kernel of a node needs. They
// lead packets of pods out of each Overlay Network, and keep all other packets out of it. The
// paths between pods are the tables of package tables.
//
//	Network blue, VNI 1001, 192.168.0.0/16, gateway 192.168.0.1
//
//	         node                         router namespace pod2-1001
//	pods === rt1001 -------------- lan -+-- 192.168.0.1/16, the same MAC
//	                                    |   and IP on every node
//	         wn1001 -------------- wan -+-- 100.64.0.1/31, NAT
//
// Want computes the desired state of the kernel from a State. Diff computes the steps from
// the observed state to the desired one. A Network is identified by its VNI alone, so
// Networks with the same CIDR, and Networks of either family, are handled alike.
package dataplane
