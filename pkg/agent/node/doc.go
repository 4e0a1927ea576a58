// Package node keeps the programs of package bpf, their maps and the interfaces of pods as the records
// of the cluster say. It is the imperative room of the data plane's quick part:
//
//	an event of the cluster   tables decides which entries change; they are written at once
//	a request of pod2-cni     authorize decides; the interface is made, its port programmed, and
//	                          only then opened
//	from time to time         Sync reads all maps, and attaches what is not attached
//
// Packages dataplane and kernel keep the gateway of the node, which all Networks share, and the filter.
package node
