// Package attachment reads and writes what ties a pod to its Networks: the
// annotation with the request, the one with the answer, and the one that Multus
// reads. It also answers the questions about a pod on which the address protocol
// rests.
//
//	samplecrd.k8s.io/networks: "blue, green=10.1.0.10"                      the request
//	samplecrd.k8s.io/addresses: '{"blue":{"address":"192.168.0.2/16",...},  the answer
//	                              "green":{"address":"10.1.0.10/24",...}}'
//	k8s.v1.cni.cncf.io/networks: '[{"name":"blue","namespace":"default",    for Multus
//	                              "interface":"net1","ips":["192.168.0.2/16"],...},...]'
//
// Nothing here does I/O or knows the time, and whatever a user wrote into an
// annotation ends in a value or in an error, never in a panic.
package attachment
