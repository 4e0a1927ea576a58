//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// store is a Pod2 with the volumeClaimTemplate data of a StorageClass.
func store(name, class, size, spec string) string {
	return pod2(name, fmt.Sprintf(`volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: %q, resources: {requests: {storage: %s}}}}], %s`, class, size, spec))
}

func setSize(t *testing.T, namespace, name, size string) {
	t.Helper()
	run(t, namespace, "patch", "pod2", name, "--type=json", "-p",
		fmt.Sprintf(`[{"op": "replace", "path": "/spec/volumeClaimTemplates/0/spec/resources/requests/storage", "value": %q}]`, size))
}

// PVCs are created by ordinal. They are kept when a pod is deleted, when the Pod2 is
// scaled, and when it is deleted. The next Pod2 with its name uses the same data.
func TestClaimsAreKept(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	provision(t, ns)
	startController(t, ns)
	manifest := store("web", class(t, ns, true), "1Gi", "replicas: 3")
	create(t, ns, manifest)
	waitReady(t, ns, "pod2/web")
	const want = "data-web-0: Bound 1Gi web/0\ndata-web-1: Bound 1Gi web/1\ndata-web-2: Bound 1Gi web/2"
	waitClaims(t, ns, want)
	for name, pod := range listPods(t, ns) {
		if claim := mounted(pod, "data"); claim != "data-"+name {
			t.Errorf("pod %s mounts PVC %q", name, claim)
		}
	}
	before := render(claimUIDs(t, ns))
	run(t, ns, "delete", "pod", "web-1")
	waitReady(t, ns, "pod2/web")
	run(t, ns, "scale", "pod2/web", "--replicas=1")
	waitReplicas(t, ns, "web", 1)
	waitClaims(t, ns, want)
	run(t, ns, "scale", "pod2/web", "--replicas=3")
	waitReady(t, ns, "pod2/web")
	run(t, ns, "delete", "pod2/web", "--cascade=foreground", "--timeout="+patience.String())
	waitClaims(t, ns, want)
	create(t, ns, manifest)
	waitReady(t, ns, "pod2/web")
	if after := render(claimUIDs(t, ns)); after != before {
		t.Errorf("PVCs were\n%s\nand are\n%s", before, after)
	}
}

// A PVC is deleted when its replica is scaled down, or its ordinal is reserved. It is
// deleted with the Pod2 if the policy says so.
func TestClaimsAreDeleted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	provision(t, ns)
	startController(t, ns)
	create(t, ns, store("web", class(t, ns, true), "1Gi", "replicas: 4, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}"))
	waitReady(t, ns, "pod2/web")
	const rest = "data-web-0: Bound 1Gi web/0\ndata-web-2: Bound 1Gi web/2"
	patchPod2(t, ns, "web", `{"spec":{"replicas":2,"reserveOrdinals":[1]}}`)
	waitClaims(t, ns, rest)
	waitReady(t, ns, "pod2/web")

	patchPod2(t, ns, "web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"}}}`)
	waitClaims(t, ns, strings.ReplaceAll(rest, "\n", " owned\n")+" owned")
	patchPod2(t, ns, "web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}`)
	waitClaims(t, ns, rest)
	patchPod2(t, ns, "web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"}}}`)
	waitClaims(t, ns, strings.ReplaceAll(rest, "\n", " owned\n")+" owned")
	run(t, ns, "delete", "pod2/web", "--timeout="+patience.String())
	waitGone(t, ns, "persistentvolumeclaims")
}

// A PVC of another owner is reported and not used, and the other replicas run. A PVC
// without controller is used with its data.
func TestClaimsOfOthers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	provision(t, ns)
	name := class(t, ns, true)
	run(t, ns, "create", "configmap", "db")
	uid := run(t, ns, "get", "configmap", "db", "-o", "jsonpath={.metadata.uid}")
	claim := func(name, owners string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s, ownerReferences: [%s]}\nspec: {accessModes: [ReadWriteOnce], storageClassName: CLASS, resources: {requests: {storage: 5Gi}}}\n", name, owners)
	}
	create(t, ns, strings.ReplaceAll(claim("data-web-0", fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, name: db, uid: %s, controller: true}", uid))+
		claim("data-web-1", ""), "CLASS", name))
	before := claimUIDs(t, ns)
	startController(t, ns)
	create(t, ns, store("web", name, "1Gi", "replicas: 3"))
	waitCondition(t, ns, "pod2/web", "Ready", "False ClaimTaken: PersistentVolumeClaim data-web-0 is owned by ConfigMap db")
	waitReplicas(t, ns, "web", 2)
	waitClaims(t, ns, "data-web-0: Bound 5Gi\ndata-web-1: Bound 5Gi web/1\ndata-web-2: Bound 1Gi web/2")
	if now := claimUIDs(t, ns); now["data-web-1"] != before["data-web-1"] || now["data-web-0"] != before["data-web-0"] {
		t.Errorf("PVCs were %v and are %v", before, now)
	}
	run(t, ns, "delete", "persistentvolumeclaim", "data-web-0", "--timeout="+patience.String())
	waitReady(t, ns, "pod2/web")
	waitClaims(t, ns, "data-web-0: Bound 1Gi web/0\ndata-web-1: Bound 5Gi web/1\ndata-web-2: Bound 1Gi web/2")
}

// PVCs grow without a restart if their StorageClass allows it. If not, that is reported
// once, until the StorageClass changes.
func TestClaimsGrow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	provision(t, ns)
	c := startController(t, ns, withMetrics)
	slow := class(t, ns, false)
	create(t, ns, store("web", class(t, ns, true), "1Gi", "replicas: 2")+store("fixed", slow, "1Gi", "replicas: 1"))
	waitReady(t, ns, "pod2/web", "pod2/fixed")
	before := render(uids(t, ns))
	setSize(t, ns, "web", "2Gi")
	setSize(t, ns, "fixed", "3Gi")
	waitClaims(t, ns, "data-fixed-0: Bound 1Gi fixed/0\ndata-web-0: Bound 2Gi web/0\ndata-web-1: Bound 2Gi web/1")
	waitCondition(t, ns, "pod2/web", v1.ConditionClaimsResized, "True ClaimsResized")
	waitCondition(t, ns, "pod2/fixed", v1.ConditionClaimsResized, "False ExpansionNotAllowed: PersistentVolumeClaim data-fixed-0 requests 1Gi and its template requests 3Gi, "+
		"but StorageClass "+slow+" does not allow expansion (allowVolumeExpansion)")
	waitReady(t, ns, "pod2/web", "pod2/fixed")
	c.waitIdle(t, 1) // includes writes that the waits above do not check
	requireQuiet(t, ns)
	run(t, ns, "patch", "storageclass", slow, "-p", `{"allowVolumeExpansion":true}`)
	waitCondition(t, ns, "pod2/fixed", v1.ConditionClaimsResized, "True ClaimsResized")
	waitClaims(t, ns, "data-fixed-0: Bound 3Gi fixed/0\ndata-web-0: Bound 2Gi web/0\ndata-web-1: Bound 2Gi web/1")
	if after := render(uids(t, ns)); after != before {
		t.Errorf("pods were\n%s\nand are\n%s", before, after)
	}
}

// Only the size of a volumeClaimTemplate may change, and it may only grow.
func TestClaimTemplatesRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, store("web", "fast", "2Gi", "replicas: 0")+pod2("none", "replicas: 0"))
	const only = "immutable except for spec.resources.requests.storage"
	const fixed = "must not be added, removed, renamed or reordered"
	at := func(op, path, value string) string {
		return fmt.Sprintf(`[{"op": %q, "path": "/spec/volumeClaimTemplates/0%s", "value": %s}]`, op, path, value)
	}
	const template = `{"metadata": {"name": "x"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`
	for _, c := range []struct{ name, pod2, patch, want string }{
		{"smaller", "web", at("replace", "/spec/resources/requests/storage", `"1Gi"`), "of a volumeClaimTemplate may only grow"},
		{"another class", "web", at("replace", "/spec/storageClassName", `"slow"`), only},
		{"no class", "web", `[{"op": "remove", "path": "/spec/volumeClaimTemplates/0/spec/storageClassName"}]`, only},
		{"access modes", "web", at("replace", "/spec/accessModes", `["ReadOnlyMany"]`), only},
		{"volume mode", "web", at("add", "/spec/volumeMode", `"Block"`), only},
		{"volume", "web", at("add", "/spec/volumeName", `"x"`), only},
		{"selector", "web", at("add", "/spec/selector", `{"matchLabels": {"a": "b"}}`), only},
		{"source", "web", at("add", "/spec/dataSource", `{"kind": "PersistentVolumeClaim", "name": "x"}`), only},
		{"limits", "web", at("add", "/spec/resources/limits", `{"storage": "9Gi"}`), only},
		{"labels", "web", at("add", "/metadata/labels", `{"a": "b"}`), only},
		{"another name", "web", at("replace", "/metadata/name", `"log"`), fixed},
		{"one more", "web", at("add", "", template), fixed},
		{"the first", "none", `[{"op": "add", "path": "/spec/volumeClaimTemplates", "value": [` + template + `]}]`, fixed},
		{"all removed", "web", `[{"op": "remove", "path": "/spec/volumeClaimTemplates"}]`, fixed},
		{"an empty list", "web", `[{"op": "replace", "path": "/spec/volumeClaimTemplates", "value": []}]`, fixed},
	} {
		if got := refused(t, ns, "", "patch", "pod2", c.pod2, "--type=json", "-p", c.patch); !strings.Contains(got, c.want) {
			t.Errorf("%s: refused with\n%s\nwant %s", c.name, got, c.want)
		}
	}
	setSize(t, ns, "web", "1Ti")
	for _, c := range []struct{ templates, want string }{
		{`[{metadata: {name: a}, spec: {}}]`, "must have metadata.name, and spec.resources.requests.storage as a string such as 1Gi"},
		{`[{spec: {resources: {requests: {storage: 1Gi}}}}]`, "must have metadata.name"},
		{`[{metadata: {name: a}, spec: {resources: {requests: {storage: 1}}}}]`, "as a string such as 1Gi"},
		{"[" + strings.Repeat(`{metadata: {name: a}, spec: {resources: {requests: {storage: 1Gi}}}}, `, 2) + "]", "volumeClaimTemplates names must be unique"},
	} {
		if got := refused(t, ns, pod2("bad", "volumeClaimTemplates: "+c.templates), "create", "-f", "-"); !strings.Contains(got, c.want) {
			t.Errorf("%s: refused with\n%s\nwant %s", c.templates, got, c.want)
		}
	}
}

// A surge replica has its own PVC, which is deleted with it although the policy retains
// PVCs.
func TestSurgeClaims(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	p := provision(t, ns)
	startController(t, ns)
	create(t, ns, store("web", class(t, ns, true), "1Gi", "replicas: 2, updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"))
	waitReady(t, ns, "pod2/web")
	setVersion(t, ns, "web", "2")
	const want = "data-web-0: Bound 1Gi web/0\ndata-web-1: Bound 1Gi web/1"
	eventually(t, "the surge replica's PVC existed", func(context.Context) (string, error) {
		if got := p.seen("data-web-2"); got != "1Gi web/2 owned surge" {
			return "seen: " + got, nil
		}
		return "", nil
	})
	waitReady(t, ns, "pod2/web")
	waitClaims(t, ns, want)
	requireVersion(t, ns, "2", 2)
}

// The installed role suffices for PVCs.
func TestRoleSufficesForClaims(t *testing.T) {
	t.Parallel()
	install(t)
	ns := newNamespace(t)
	provision(t, ns)
	c := startController(t, ns, "--kubeconfig", asServiceAccount(t))
	name := class(t, ns, true)
	create(t, ns, fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-web-0}\n"+
		"spec: {accessModes: [ReadWriteOnce], storageClassName: %s, resources: {requests: {storage: 1Gi}}}", name))
	create(t, ns, store("web", name, "1Gi", "replicas: 2, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}"))
	waitReady(t, ns, "pod2/web")
	setSize(t, ns, "web", "2Gi")
	waitClaims(t, ns, "data-web-0: Bound 2Gi web/0\ndata-web-1: Bound 2Gi web/1")
	run(t, ns, "scale", "pod2/web", "--replicas=1")
	waitClaims(t, ns, "data-web-0: Bound 2Gi web/0")
	if log := c.log.String(); strings.Contains(log, "forbidden") {
		t.Errorf("the controller was refused:\n%s", grep(log, "forbidden"))
	}
}
