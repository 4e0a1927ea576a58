package apiserver

// Kinds are the requests that programs make in the scenarios, by verb and resource.
// TestKindsOfRequests checks that the list is complete, and test/integration compares the
// answers with those of a real kube-apiserver.
var Kinds = []string{
	"DELETE addressblocks", "DELETE addresshistories", "DELETE addressslices", "DELETE cronjobs", "DELETE endpointslices", "DELETE persistentvolumeclaims", "DELETE pods", "DELETE vnis",
	"GET cronjobs", "GET crontabs", "GET networks", "GET persistentvolumeclaims", "GET pod2s", "GET pods",
	"LIST addressblocks", "LIST jobs", "LIST networks", "LIST pods",
	"PATCH addressblocks", "PATCH addresshistories", "PATCH addressslices", "PATCH controllerrevisions", "PATCH cronjobs", "PATCH crontabs", "PATCH crontabs/status", "PATCH endpointslices", "PATCH events",
	"PATCH network-attachment-definitions", "PATCH networks", "PATCH networks/status", "PATCH persistentvolumeclaims",
	"PATCH pod2s", "PATCH pod2s/status", "PATCH pods", "PATCH pods/resize", "PATCH pods/status", "PATCH services", "PATCH sidecars/status",
	"POST addressblocks", "POST addresshistories", "POST addressslices", "POST controllerrevisions", "POST cronjobs", "POST endpointslices", "POST events",
	"POST network-attachment-definitions", "POST persistentvolumeclaims", "POST pods", "POST services", "POST vnis",
	"WATCH addressblocks", "WATCH addresshistories", "WATCH addressslices", "WATCH controllerrevisions", "WATCH cronjobs", "WATCH crontabs", "WATCH endpointslices",
	"WATCH jobs", "WATCH network-attachment-definitions", "WATCH networks", "WATCH nodes", "WATCH persistentvolumeclaims", "WATCH pod2s", "WATCH pods",
	"WATCH services", "WATCH sidecars", "WATCH statefulsets", "WATCH storageclasses", "WATCH vnis",
}

// FaultKinds are the further requests that programs make during faults: after a crash, on
// an old view, when one of two programs must lead, or when a watch is refused. No run in a
// test makes any other request.
var FaultKinds = []string{
	"GET controllerrevisions", "GET endpointslices", "GET services",
	"GET leases", "POST leases", "PUT leases",
	"LIST addresshistories", "LIST addressslices", "LIST controllerrevisions", "LIST cronjobs", "LIST crontabs", "LIST endpointslices", "LIST network-attachment-definitions", "LIST nodes",
	"LIST persistentvolumeclaims", "LIST pod2s", "LIST services", "LIST sidecars", "LIST statefulsets", "LIST storageclasses", "LIST vnis",
}
