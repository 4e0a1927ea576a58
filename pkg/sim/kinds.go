package sim

// Kinds are the requests that programs make in the scenarios, by verb and resource.
// TestKindsOfRequests holds them to what is asked for, and pkg/integration compares
// the answers with those of a real kube-apiserver.
var Kinds = []string{
	"DELETE addressblocks", "DELETE cronjobs", "DELETE persistentvolumeclaims", "DELETE pods", "DELETE vnis",
	"GET cronjobs", "GET crontabs", "GET network-attachment-definitions", "GET networks", "GET persistentvolumeclaims", "GET pod2s", "GET pods",
	"LIST addressblocks", "LIST jobs", "LIST pods",
	"PATCH nodes/status", "PATCH persistentvolumeclaims", "PATCH pods", "PATCH pods/resize", "PATCH pods/status",
	"POST addressblocks", "POST controllerrevisions", "POST cronjobs", "POST endpointslices", "POST events",
	"POST network-attachment-definitions", "POST persistentvolumeclaims", "POST pods", "POST services", "POST vnis",
	"PUT addressblocks", "PUT controllerrevisions", "PUT cronjobs", "PUT crontabs", "PUT crontabs/status", "PUT endpointslices",
	"PUT network-attachment-definitions", "PUT networks", "PUT networks/status", "PUT pod2s/status", "PUT services",
	"WATCH addressblocks", "WATCH controllerrevisions", "WATCH cronjobs", "WATCH crontabs", "WATCH endpointslices",
	"WATCH jobs", "WATCH network-attachment-definitions", "WATCH networks", "WATCH nodes", "WATCH persistentvolumeclaims", "WATCH pod2s", "WATCH pods",
	"WATCH services", "WATCH statefulsets", "WATCH storageclasses", "WATCH vnis",
}

// FaultKinds are those that programs make besides after a crash, on an old view, or
// when one of two is to lead. No run in a test asks for anything else.
var FaultKinds = []string{
	"DELETE endpointslices", "GET controllerrevisions", "GET endpointslices", "GET services", "PATCH events",
	"GET leases", "POST leases", "PUT leases",
}
