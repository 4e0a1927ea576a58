// Package dataplane decides which state the kernel of a node needs so that the pods of
// each Overlay Network reach each other, and nobody else reaches them.
//
//	Network blue, VNI 1001, 192.168.0.0/16, gateway 192.168.0.1; pod a is on this node
//	(veth5e11, 192.168.0.2), pod b on the node 10.0.0.2 (192.168.0.3)
//
//	         node                                           router namespace pod2-1001
//	a --- veth5e11 --+                                     +-- 192.168.0.1/16, the same MAC
//	                 nw1001 (bridge) -- rt1001 ------ lan -+   and IP on every node
//	b <== vx1001 ----+                                     +- wan 100.64.0.1/31, NAT
//	      (VXLAN)                        wn1001 ------ wan -+
//
// Nodes learn nothing from each other's packets and flood nothing. For b there are a VXLAN
// destination, a bridge entry and a permanent neighbour. From that neighbour the bridge
// answers ARP and neighbour solicitations on b's behalf.
//
// Want computes the desired state of the kernel from a State. Diff computes the steps from
// the observed state to the desired one. A Network is identified by its VNI alone, so
// Networks with the same CIDR, and Networks of either family, are handled alike.
package dataplane
