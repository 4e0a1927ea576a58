//go:build integration

package integration

import "strings"

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	otherUID       = "11111111-1111-4111-8111-111111111111"
)

func byUID(name string) string { return `{"preconditions":{"uid":"{uid:` + name + `}"}}` }

// waitingPod is a pod that no scheduler schedules.
func waitingPod(name, labels string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","labels":{` + labels + `}},"spec":{"schedulerName":"none",` +
		`"schedulingGates":[{"name":"samplecrd.k8s.io/addresses"},{"name":"example.com/other"}],` +
		`"containers":[{"name":"app","image":"one","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]}}`
}

// foreignPod is a pod that the admission policy of artifacts/ would not label.
func foreignPod(name string) string {
	return strings.Replace(waitingPod(name, `"other":"true"`), `{"name":"samplecrd.k8s.io/addresses"},`, "", 1)
}

// claimPatch is the controller's patch of a PVC.
func claimPatch(name, size string) string {
	return `{"metadata":{"uid":"{uid:` + name + `}","resourceVersion":"{rv:` + name + `}","labels":{"samplecrd.k8s.io/pod2":"web"},"annotations":{"samplecrd.k8s.io/surge-claim":null},` +
		`"ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","name":"owner","uid":"{uid:owner}"}]},"spec":{"resources":{"requests":{"storage":"` + size + `"}}}}`
}

// change is a merge patch with the preconditions of all patches of the controller.
func change(uid, version, metadata, rest string) string {
	return `{"metadata":{"uid":"` + uid + `","resourceVersion":"` + version + `"` + metadata + `}` + rest + `}`
}

// operations is a JSON patch with the preconditions of those of the controller.
func operations(uid, version, all string) string {
	return `[` + all + `,{"op":"replace","path":"/metadata/uid","value":"` + uid + `"},{"op":"replace","path":"/metadata/resourceVersion","value":"` + version + `"}]`
}

const (
	annotate = `{"op":"add","path":"/metadata/annotations","value":{"x":"y"}}`
	ungate   = `{"op":"test","path":"/spec/schedulingGates/0/name","value":"samplecrd.k8s.io/addresses"},{"op":"remove","path":"/spec/schedulingGates/0"}`
	unmanage = `{"op":"add","path":"/metadata/managedFields","value":[{}]}`
)

const managed = `"samplecrd.k8s.io/managed":"true"`

// exchanges run one after the other.
var exchanges = []exchange{
	// Custom resources: create, update, status, conflicts, finalizers, generation.
	{what: "GET networks/blue"},
	{what: "POST networks", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"Network","metadata":{"name":"blue","annotations":{"samplecrd.k8s.io/allow-deletion":"true"}},"spec":{"cidr":"10.0.0.0/24"},"status":{"bound":7}}`},
	{what: "POST networks", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"Network","metadata":{"name":"blue","annotations":{"samplecrd.k8s.io/allow-deletion":"true"}},"spec":{"cidr":"10.0.0.0/24"}}`},
	{what: "GET networks/blue"},
	{what: "PATCH networks/blue", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", `,"finalizers":["samplecrd.k8s.io/in-use"],"annotations":{"samplecrd.k8s.io/gateway":"10.0.0.1"}`, `,"status":{"bound":9}`)},
	{what: "PATCH networks/blue", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", "", "")},
	{what: "PATCH networks/blue", contentType: mergePatch, body: change("{uid:blue}", "{old:blue}", "", "")},
	{what: "PATCH networks/blue", contentType: mergePatch, body: change(otherUID, "{rv:blue}", "", "")},
	{what: "PATCH networks/none", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", "", "")},
	{what: "PATCH networks/blue", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", "", `,"spec":{"exclude":["10.0.0.9"]}`)},
	{what: "PATCH networks/blue/status", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", `,"labels":{"a":"b"}`, `,"spec":{"exclude":[]},"status":{"bound":3,"observedGeneration":2}`)},
	{what: "PATCH networks/blue/status", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", "", "")},
	{what: "PATCH networks/blue/status", contentType: mergePatch, body: change("{uid:blue}", "{old:blue}", "", `,"status":{"bound":4}`)},
	{what: "PATCH networks/none/status", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", "", "")},
	{what: "LIST networks"},
	{what: "WATCH networks", query: "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"},
	{what: "DELETE networks/blue", body: byUID("blue")},
	{what: "DELETE networks/blue", body: byUID("blue")},
	{what: "GET networks/blue"},
	{what: "PATCH networks/blue", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", `,"finalizers":["samplecrd.k8s.io/in-use","example.com/more"]`, "")},

	// AddressBlocks.
	{what: "POST addressblocks", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"AddressBlock","metadata":{"name":"blue-10.0.0.0","finalizers":["samplecrd.k8s.io/in-use"],` +
		`"ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","kind":"Network","name":"blue","uid":"{uid:blue}","controller":true,"blockOwnerDeletion":true}]},` +
		`"spec":{"network":"blue","networkUID":"{uid:blue}","cidr":"10.0.0.0/24","entries":[{"address":"10.0.0.2","pod":"web-0","podUID":"u","state":"Bound","since":"2000-01-01T00:00:00Z"}]}}`, as: "block"},
	{what: "POST addressblocks", from: "block", body: `{"metadata":{"resourceVersion":null,"uid":null}}`},
	{what: "POST addressblocks", from: "block", body: `{}`},
	{what: "PATCH addressblocks/blue-10.0.0.0", as: "block", contentType: jsonPatch, body: operations("{uid:block}", "{rv:block}", `{"op":"replace","path":"/spec/entries/0","value":{"address":"10.0.0.2","pod":"web-0","state":"Reserved","since":"2000-01-01T00:00:00Z"}},`+
		`{"op":"add","path":"/spec/entries/1","value":{"address":"10.0.0.3","pod":"web-1","podUID":"u","state":"Bound","since":"2000-01-01T00:00:00Z"}}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", contentType: jsonPatch, body: operations("{uid:block}", "{old:block}", `{"op":"remove","path":"/spec/entries/0"}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", contentType: jsonPatch, body: operations(otherUID, "{rv:block}", `{"op":"remove","path":"/spec/entries/0"}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", contentType: jsonPatch, body: operations("{uid:block}", "{old:block}", `{"op":"remove","path":"/spec/entries/2"}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", as: "block", contentType: jsonPatch, body: operations("{uid:block}", "{rv:block}", `{"op":"remove","path":"/spec/entries/1"}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", contentType: mergePatch, body: change("{uid:block}", "{old:block}", "", `,"spec":{"entries":[]}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", contentType: mergePatch, body: change("{uid:block}", "{rv:block}", "", `,"spec":{"sealed":true}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", contentType: mergePatch, body: change("{uid:block}", "{rv:block}", "", `,"spec":{"cidr":"10.0.1.0/24"}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", as: "block", contentType: mergePatch, body: change("{uid:block}", "{rv:block}", "", `,"spec":{"sealed":true,"entries":[]}`)},
	{what: "PATCH addressblocks/blue-10.0.0.0", contentType: mergePatch, body: change("{uid:block}", "{rv:block}", "", `,"spec":{"sealed":false}`)},
	{what: "LIST addressblocks"},
	{what: "DELETE addressblocks/blue-10.0.0.0", body: `{"preconditions":{"uid":"` + otherUID + `"}}`},
	{what: "DELETE addressblocks/blue-10.0.0.0", body: `{"preconditions":{"uid":"{uid:block}","resourceVersion":"{old:block}"}}`},
	{what: "PATCH addressblocks/blue-10.0.0.0", as: "block", contentType: mergePatch, body: change("{uid:block}", "{rv:block}", `,"finalizers":null`, "")},
	{what: "DELETE addressblocks/blue-10.0.0.0", body: `{"preconditions":{"uid":"{uid:block}","resourceVersion":"{rv:block}"}}`},
	{what: "DELETE addressblocks/blue-10.0.0.0", body: byUID("block")},
	{what: "PATCH networks/blue", contentType: mergePatch, body: change("{uid:blue}", "{rv:blue}", `,"finalizers":null`, "")},
	{what: "GET networks/blue"},

	// AddressSlices.
	{what: "POST addressslices", as: "addresses", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"AddressSlice","metadata":{"name":"blue-0"},"spec":{"locations":{"10.0.0.2":"192.0.2.1"}}}`},
	{what: "PATCH addressslices/blue-0", as: "addresses", contentType: mergePatch, body: change("{uid:addresses}", "{rv:addresses}", "", `,"spec":{"locations":{"10.0.0.2":null,"10.0.0.3":"192.0.2.1"}}`)},
	{what: "PATCH addressslices/blue-0", contentType: mergePatch, body: change("{uid:addresses}", "{old:addresses}", "", "")},
	{what: "DELETE addressslices/blue-0", body: `{"preconditions":{"uid":"` + otherUID + `"}}`},
	{what: "DELETE addressslices/blue-0", body: byUID("addresses")},
	// AddressHistories.
	{what: "POST addresshistories", as: "history", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"AddressHistory","metadata":{"name":"blue-0"},"spec":{"since":"2026-01-01T10:00:00Z","through":"2026-01-01T10:00:05Z","records":[{"address":"10.0.0.2","pod":"web-0","until":"2026-01-01T10:00:03Z"}]}}`},
	{what: "PATCH addresshistories/blue-0", as: "history", contentType: mergePatch, body: change("{uid:history}", "{rv:history}", "", `,"spec":{"through":"2026-01-01T10:00:09Z","records":[]}`)},
	{what: "PATCH addresshistories/blue-0", contentType: mergePatch, body: change("{uid:history}", "{old:history}", "", "")},
	{what: "DELETE addresshistories/blue-0", body: `{"preconditions":{"uid":"` + otherUID + `"}}`},
	{what: "DELETE addresshistories/blue-0", body: byUID("history")},

	// Sidecars, and the dry run of a pod.
	{what: "POST sidecars", as: "mesh", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"Sidecar","metadata":{"name":"mesh"},"spec":{"selector":{"app":"web"},"containers":[{"name":"mesh","image":"one"}]}}`},
	{what: "PATCH sidecars/mesh/status", as: "mesh", contentType: mergePatch, body: change("{uid:mesh}", "{rv:mesh}", "", `,"status":{"matched":1,"upToDate":0,"ready":0,"observedGeneration":1}`)},
	{what: "PATCH sidecars/mesh/status", contentType: mergePatch, body: change("{uid:mesh}", "{old:mesh}", "", `,"status":{"matched":2}`)},
	{what: "DELETE sidecars/mesh", body: byUID("mesh")},
	{what: "POST pods", query: "dryRun=All", body: waitingPod("mesh-sidecar-probe", managed)},
	{what: "GET pods/mesh-sidecar-probe"},

	// VNIs, and NetworkAttachmentDefinitions.
	{what: "POST vnis", as: "vni", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"VNI","metadata":{"name":"16777215"},"spec":{"network":{"namespace":"default","name":"blue","uid":"u"}}}`},
	{what: "POST vnis", from: "vni", body: `{"metadata":{"resourceVersion":null,"uid":null}}`},
	{what: "WATCH vnis", query: "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3D16777215"},
	{what: "DELETE vnis/16777215", body: `{"preconditions":{"uid":"` + otherUID + `"}}`},
	{what: "DELETE vnis/16777215", body: byUID("vni")},
	{what: "DELETE vnis/16777215", body: byUID("vni")},
	{what: "GET network-attachment-definitions/blue"},
	{what: "POST network-attachment-definitions", as: "definition", body: `{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition","metadata":{"name":"blue","labels":{"samplecrd.k8s.io/network":"blue"}},"spec":{"config":"{}"}}`},
	{what: "POST network-attachment-definitions", from: "definition", body: `{"metadata":{"resourceVersion":null,"uid":null}}`},
	{what: "PATCH network-attachment-definitions/blue", contentType: mergePatch, body: change("{uid:definition}", "{rv:definition}", "", `,"spec":{"config":"[]"}`)},
	{what: "PATCH network-attachment-definitions/blue", contentType: mergePatch, body: change("{uid:definition}", "{old:definition}", "", "")},
	{what: "WATCH network-attachment-definitions", query: "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"},
	{what: "DELETE network-attachment-definitions/blue", body: byUID("definition")},

	// Pod2s, and patches of custom resources.
	{what: "POST pod2s", as: "web", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","metadata":{"name":"web"},"spec":{"networks":[{"name":"blue"}],"template":{"spec":{"containers":[{"name":"app","image":"one"}]}}}}`},
	{what: "GET pod2s/web"},
	{what: "PATCH pod2s/web", contentType: mergePatch, body: `{"metadata":{"uid":"{uid:web}","resourceVersion":"{rv:web}","annotations":{"samplecrd.k8s.io/backoff":"{}"}}}`},
	{what: "PATCH pod2s/web", contentType: mergePatch, body: `{"metadata":{"uid":"{uid:web}","resourceVersion":"{rv:web}","annotations":{"samplecrd.k8s.io/backoff":null}}}`},
	{what: "PATCH pod2s/web", contentType: mergePatch, body: `{"metadata":{"uid":"` + otherUID + `","annotations":{"a":"b"}}}`},
	{what: "PATCH pod2s/web", contentType: mergePatch, body: `{"metadata":{"uid":"{uid:web}","resourceVersion":"{old:web}","annotations":{"a":"b"}}}`},
	{what: "PATCH pod2s/web", contentType: mergePatch, body: `{"spec":{"replicas":3}}`},
	{what: "PATCH pod2s/none", contentType: mergePatch, body: `{"spec":{"replicas":3}}`},
	{what: "PATCH pod2s/web", contentType: strategicPatch, body: `{"spec":{"replicas":3}}`},
	{what: "PATCH pod2s/web/status", contentType: mergePatch, body: change("{uid:web}", "{rv:web}", "", `,"status":{"replicas":1,"observedGeneration":2}`)},
	{what: "PATCH pod2s/web/status", contentType: mergePatch, body: change("{uid:web}", "{old:web}", "", `,"status":{"replicas":2}`)},
	{what: "DELETE pod2s/web", body: `{"propagationPolicy":"Orphan"}`},

	// CronTabs and CronJobs.
	{what: "POST crontabs", as: "report", body: `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"report","finalizers":["finalizer.stable.example.com"]},"spec":{"cronSpec":"@yearly","image":"one"}}`},
	{what: "GET crontabs/report"},
	{what: "PATCH crontabs/report/status", contentType: mergePatch, body: change("{uid:report}", "{rv:report}", "", `,"status":{"observedGeneration":1}`)},
	{what: "DELETE crontabs/report", body: byUID("report")},
	{what: "GET crontabs/report"},
	{what: "PATCH crontabs/report", contentType: mergePatch, body: change("{uid:report}", "{rv:report}", `,"finalizers":null`, "")},
	{what: "GET crontabs/report"},
	{what: "GET cronjobs/report"},
	{what: "POST cronjobs", as: "cronjob", body: `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"report"},"spec":{"schedule":"@yearly","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"app","image":"one"}]}}}}}}`},
	{what: "PATCH cronjobs/report", as: "cronjob", contentType: mergePatch, body: change("{uid:cronjob}", "{rv:cronjob}", "", `,"spec":{"schedule":"@monthly"}`)},
	{what: "PATCH cronjobs/report", contentType: mergePatch, body: change("{uid:cronjob}", "{old:cronjob}", "", "")},
	{what: "DELETE cronjobs/report", body: `{"preconditions":{"uid":"{uid:cronjob}","resourceVersion":"{old:cronjob}"},"propagationPolicy":"Foreground"}`},
	{what: "DELETE cronjobs/report", body: `{"preconditions":{"uid":"{uid:cronjob}","resourceVersion":"{rv:cronjob}"},"propagationPolicy":"Foreground"}`},
	{what: "LIST jobs", query: "labelSelector=stable.example.com/crontab%3Dreport"},

	// Revisions, Services, EndpointSlices and PVCs.
	{what: "POST pod2s", as: "owner", body: `{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","metadata":{"name":"owner"},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"one"}]}}}}`},
	{what: "POST controllerrevisions", body: `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"web-1","labels":{"samplecrd.k8s.io/pod2":"web"}},"data":{"a":1},"revision":1}`},
	{what: "POST controllerrevisions", body: `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"web-1"},"data":{"a":1},"revision":1}`},
	{what: "GET controllerrevisions/web-1"},
	{what: "PATCH controllerrevisions/web-1", contentType: mergePatch, body: change("{uid:web-1}", "{rv:web-1}", "", `,"revision":2`)},
	{what: "PATCH controllerrevisions/web-1", contentType: mergePatch, body: change("{uid:web-1}", "{old:web-1}", "", `,"revision":3`)},
	{what: "DELETE controllerrevisions/web-1", body: byUID("web-1")},
	{what: "POST services", as: "service", body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-blue"},"spec":{"clusterIP":"None","clusterIPs":["None"],"publishNotReadyAddresses":true,"ports":[{"port":1}]}}`},
	{what: "POST services", body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web-blue"},"spec":{"clusterIP":"None","ports":[{"port":1}]}}`},
	{what: "GET services/web-blue", as: "service"},
	{what: "PATCH services/web-blue", as: "service", contentType: mergePatch, body: change("{uid:service}", "{rv:service}", `,"labels":{"a":"b"}`, "")},
	{what: "PATCH services/web-blue", contentType: mergePatch, body: change("{uid:service}", "{old:service}", `,"labels":{"a":"c"}`, "")},
	{what: "DELETE services/web-blue", body: byUID("service")},
	{what: "POST endpointslices", as: "slice", body: `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-blue-0"},"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.2"],"hostname":"web-0","conditions":{"ready":true}}],"ports":[]}`},
	{what: "GET endpointslices/web-blue-0", as: "slice"},
	{what: "PATCH endpointslices/web-blue-0", as: "slice", contentType: mergePatch, body: change("{uid:slice}", "{rv:slice}", "", `,"endpoints":[{"addresses":["10.0.0.3"],"hostname":"web-0","conditions":{"ready":true}}]`)},
	{what: "PATCH endpointslices/web-blue-0", as: "slice", contentType: mergePatch, body: change("{uid:slice}", "{rv:slice}", `,"labels":{"a":"b"}`, "")},
	{what: "PATCH endpointslices/web-blue-0", contentType: mergePatch, body: change("{uid:slice}", "{old:slice}", "", "")},
	{what: "DELETE endpointslices/web-blue-0", body: byUID("slice")},
	{what: "POST persistentvolumeclaims", as: "claim", body: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data-web-0"},"spec":{"storageClassName":"none","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
	{what: "GET persistentvolumeclaims/data-web-0"},
	{what: "PATCH persistentvolumeclaims/data-web-0", contentType: mergePatch, body: `{"metadata":{"uid":"` + otherUID + `","labels":{"a":"b"}}}`},
	{what: "DELETE persistentvolumeclaims/data-web-0", body: `{"preconditions":{"uid":"` + otherUID + `"}}`},
	{what: "POST persistentvolumeclaims", body: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data-web-0"},"spec":{"storageClassName":"none","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
	{what: "PATCH persistentvolumeclaims/data-web-0", as: "claim", contentType: mergePatch, body: claimPatch("claim", "1Gi")},
	{what: "PATCH persistentvolumeclaims/data-web-0", as: "claim", contentType: mergePatch, body: claimPatch("claim", "1Gi")},
	{what: "PATCH persistentvolumeclaims/data-web-0", contentType: mergePatch, body: `{"metadata":{"uid":"{uid:claim}","resourceVersion":"{old:claim}","ownerReferences":[]}}`},
	{what: "PATCH persistentvolumeclaims/data-web-0", contentType: mergePatch, body: claimPatch("claim", "2Gi")},
	{what: "PATCH persistentvolumeclaims/data-web-0", as: "claim", contentType: mergePatch, body: `{"metadata":{"uid":"{uid:claim}","resourceVersion":"{rv:claim}","ownerReferences":[]}}`},
	{what: "DELETE persistentvolumeclaims/data-web-0", body: byUID("claim")},
	{what: "POST persistentvolumeclaims", as: "grows", body: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"grows"},"spec":{"storageClassName":"{class}","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
	{what: "GET persistentvolumeclaims/grows", bound: true},
	{what: "PATCH persistentvolumeclaims/grows", contentType: mergePatch, body: `{"spec":{"accessModes":["ReadWriteMany"]}}`},
	{what: "PATCH persistentvolumeclaims/grows", contentType: mergePatch, body: claimPatch("grows", "512Mi")},
	{what: "PATCH persistentvolumeclaims/grows", contentType: mergePatch, body: claimPatch("grows", "2Gi")},

	// Pods: gates, publishing, conditions, changes of running pods, deletion.
	{what: "POST pods", body: waitingPod("a", managed)},
	{what: "POST pods", body: waitingPod("a", managed)},
	{what: "POST pods", body: waitingPod("b", managed)},
	{what: "POST pods", body: foreignPod("c")},
	{what: "GET pods/a"},
	{what: "GET pods/none"},
	{what: "LIST pods", query: "labelSelector=samplecrd.k8s.io/managed%3Dtrue"},
	{what: "LIST pods", query: "labelSelector=samplecrd.k8s.io/managed%21%3Dtrue&limit=500"},
	{what: "LIST pods", query: "limit=2"},
	{what: "LIST pods", query: "fieldSelector=metadata.name%3Db"},
	{what: "WATCH pods", query: "labelSelector=samplecrd.k8s.io/managed%3Dtrue&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"},
	{what: "PATCH pods/a/status", contentType: strategicPatch, body: `{"metadata":{"uid":"{uid:a}"},"status":{"conditions":[{"type":"samplecrd.k8s.io/AddressesBound","status":"False","reason":"NoAddress"}]}}`},
	{what: "PATCH pods/a/status", contentType: strategicPatch, body: `{"metadata":{"uid":"{uid:a}"},"status":{"conditions":[{"type":"samplecrd.k8s.io/AddressesBound","status":"False","reason":"NoAddress"}]}}`},
	{what: "PATCH pods/a/status", contentType: strategicPatch, body: `{"metadata":{"uid":"` + otherUID + `"},"status":{"conditions":[{"type":"samplecrd.k8s.io/AddressesBound","status":"True"}]}}`},
	{what: "PATCH pods/a", contentType: jsonPatch, body: operations("{uid:a}", "{old:a}", annotate+","+ungate)},
	{what: "PATCH pods/a", contentType: jsonPatch, body: operations(otherUID, "{rv:a}", annotate+","+ungate)},
	{what: "PATCH pods/a", contentType: jsonPatch, body: operations(otherUID, "{old:a}", annotate)},
	{what: "PATCH pods/a", contentType: jsonPatch, body: operations("{uid:a}", "{old:a}", `{"op":"remove","path":"/spec/schedulingGates/7"}`)},
	{what: "PATCH pods/a", contentType: jsonPatch, body: operations("{uid:a}", "{rv:a}", `{"op":"test","path":"/spec/schedulingGates/1/name","value":"samplecrd.k8s.io/addresses"}`)},
	{what: "PATCH pods/a", contentType: jsonPatch, body: operations("{uid:a}", "{rv:a}", `{"op":"add","path":"/metadata/annotations/x/y","value":"z"}`)},
	{what: "PATCH pods/none", contentType: jsonPatch, body: operations("{uid:a}", "{rv:a}", annotate)},
	{what: "PATCH pods/a", contentType: jsonPatch, body: operations("{uid:a}", "{rv:a}", annotate+","+ungate+","+unmanage)},
	{what: "PATCH pods/a", contentType: strategicPatch, body: `{"spec":{"schedulingGates":[{"$patch":"delete","name":"example.com/other"}]}}`},
	{what: "PATCH pods/a", contentType: strategicPatch, body: `{"spec":{"schedulingGates":[{"name":"example.com/late"}]}}`},
	{what: "PATCH pods/a", contentType: strategicPatch, body: `{"metadata":{"uid":"{uid:a}","resourceVersion":"{rv:a}","labels":{"l":"m"}},"spec":{"containers":[{"name":"app","image":"two"}]}}`},
	{what: "PATCH pods/a", contentType: strategicPatch, body: `{"spec":{"hostNetwork":true}}`},
	{what: "PATCH pods/a", contentType: strategicPatch, body: `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]}}`},
	{what: "PATCH pods/a/resize", contentType: strategicPatch, body: `{"metadata":{"uid":"{uid:a}","resourceVersion":"{old:a}"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"3"}}}]}}`},
	{what: "PATCH pods/a/resize", contentType: strategicPatch, body: `{"metadata":{"uid":"{uid:a}","resourceVersion":"{rv:a}"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"3"}}}]}}`},
	{what: "PATCH pods/a", contentType: strategicPatch, body: `{"metadata":{"uid":"{uid:a}","resourceVersion":"{rv:a}","labels":{"samplecrd.k8s.io/pod2":"owner"},` +
		`"ownerReferences":[{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","name":"owner","uid":"{uid:owner}","controller":true,"blockOwnerDeletion":true}]}}`},
	{what: "PATCH pods/b", contentType: strategicPatch, body: `{"metadata":{"uid":"{uid:b}","resourceVersion":"{rv:b}","labels":{"samplecrd.k8s.io/managed":null}}}`},
	{what: "POST pods", body: waitingPod("last", managed)},
	{what: "WATCH pods", query: "labelSelector=samplecrd.k8s.io/managed%3Dtrue&allowWatchBookmarks=true&resourceVersion={rv:c}"},
	{what: "DELETE pods/b", body: `{"preconditions":{"uid":"` + otherUID + `"}}`},
	{what: "DELETE pods/b", body: `{"preconditions":{"uid":"{uid:b}","resourceVersion":"{old:b}"}}`},
	{what: "DELETE pods/b", body: `{"preconditions":{"uid":"{uid:b}","resourceVersion":"{rv:b}"}}`},
	{what: "DELETE pods/b", body: byUID("b")},
	{what: "GET pods/b"},
	{what: "POST pods", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"runs"},"spec":{"schedulerName":"none","nodeName":"nowhere","containers":[{"name":"app","image":"one"}]}}`},
	{what: "DELETE pods/runs", body: byUID("runs")},
	{what: "GET pods/runs"},
	{what: "DELETE pods/runs", body: `{"gracePeriodSeconds":0}`},
	{what: "GET pods/runs"},

	// Leases and events.
	{what: "GET leases/leader"},
	{what: "POST leases", body: `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"leader"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15}}`},
	{what: "PUT leases/leader", from: "leader", body: `{"spec":{"holderIdentity":"you"}}`},
	{what: "PUT leases/leader", from: "leader", body: `{"metadata":{"resourceVersion":"{old:leader}"},"spec":{"holderIdentity":"me"}}`},
	{what: "POST events", body: `{"apiVersion":"v1","kind":"Event","metadata":{"name":"web.1"},"involvedObject":{"kind":"Pod","name":"a","namespace":"{ns}"},"count":1,"type":"Normal"}`},
	{what: "PATCH events/web.1", contentType: strategicPatch, body: `{"count":2}`},

	// Forgotten history.
	{what: "WATCH networks", query: "resourceVersion=1", compact: true},
}
