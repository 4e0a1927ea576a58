// Package attachment reads and writes the annotations that connect a pod to its Networks:
// the request, the published addresses, and the annotations that Multus reads. It also
// has the predicates about a pod on which the address protocol depends.
//
//	samplecrd.k8s.io/networks: "blue, green=10.1.0.10"                      the request
//	samplecrd.k8s.io/addresses: '{"blue":{"address":"192.168.0.2/16",...},  the addresses
//	                              "green":{"address":"10.1.0.10/24",...}}'
//	k8s.v1.cni.cncf.io/networks: '[{"name":"blue","namespace":"default",    for Multus
//	                              "interface":"net1","ips":["192.168.0.2/16"],...},...]'
//
// The package does no I/O and does not know the time. Any text that a user wrote into an
// annotation becomes a value or an error, never a panic.
package attachment
