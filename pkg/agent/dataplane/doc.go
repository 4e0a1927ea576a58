// Package dataplane decides what the kernel of a node has to hold so that the pods
// of Overlay Networks reach each other, and nobody else does.
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
// Nothing is learned and nothing is flooded between nodes: for b there are a VXLAN
// destination, a bridge entry, and a permanent neighbour from which the bridge answers
// ARP and neighbour solicitations on b's behalf.
//
// One decision: Want says from a State what the kernel shall hold, Diff what has to be
// done to get there. Both Networks of one CIDR and those of either family take the same
// way: a Network is its VNI.
package dataplane
