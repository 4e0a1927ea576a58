//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitAdopted waits until the Pod2 controls this many pods.
func waitAdopted(t *testing.T, namespace, name string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("Pod2 %s has %d pods", name, want), func(context.Context) (string, error) {
		owner, has := getPod2(t, namespace, name), 0
		for _, pod := range listPods(t, namespace) {
			if metav1.IsControlledBy(pod, owner) && pod.Labels["samplecrd.k8s.io/pod2"] == name {
				has++
			}
		}
		if has != want {
			return fmt.Sprintf("it has %d", has), nil
		}
		return "", nil
	})
}

func requireSamePods(t *testing.T, namespace string, before map[string]string) {
	t.Helper()
	if now := uids(t, namespace); !maps.Equal(now, before) {
		t.Errorf("pods were\n%s\nare\n%s", render(before), render(now))
	}
}

// Removed owner references are restored, and the pods stay. This includes a pod that also
// lost its labels, which the controller's watch no longer shows.
func TestRemovedOwnerReferenceComesBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 3, serviceName: web`+blue))
	waitReady(t, ns, "pod2/web")
	before, held := uids(t, ns), render(addresses(t, ns))
	run(t, ns, "patch", "pod", "web-1", "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`)
	run(t, ns, "patch", "pod", "web-2", "--type=merge", "-p", `{"metadata":{"ownerReferences":null,"labels":{
		"samplecrd.k8s.io/managed":null,"samplecrd.k8s.io/pod2":null,"samplecrd.k8s.io/pod-index":null,"samplecrd.k8s.io/pod-template-hash":null}}}`)
	waitAdopted(t, ns, "web", 3)
	waitReady(t, ns, "pod2/web")
	requireSamePods(t, ns, before)
	waitAddresses(t, ns, held)
	eventually(t, "the AddressBlocks agree with the pods", func(context.Context) (string, error) { return ledgerDiffers(t, ns), nil })
}

// A Pod2 is deleted and leaves its pods. The next Pod2 with its name adopts them with their
// addresses, and the revisions.
func TestOrphanedPodsAreAdopted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	manifest := pod2("web", `replicas: 3`+blue)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+manifest)
	waitReady(t, ns, "pod2/web")
	const all = "jsonpath={range .items[*]}{.metadata.name} {.revision}{\"\\n\"}{end}"
	setVersion(t, ns, "web", "2")
	waitVersions(t, ns, "web-0 2, web-1 2, web-2 2")
	waitReplicas(t, ns, "web", 3)
	waitReady(t, ns, "pod2/web")
	before, held, revisions := uids(t, ns), render(addresses(t, ns)), run(t, ns, "get", "controllerrevisions", "-o", all)
	run(t, ns, "delete", "pod2", "web", "--cascade=orphan")
	requireSamePods(t, ns, before)
	create(t, ns, strings.Replace(manifest, "{labels: {app: a}}", `{labels: {app: a}, annotations: {example.com/version: "2"}}`, 1))
	waitAdopted(t, ns, "web", 3)
	waitReady(t, ns, "pod2/web")
	requireSamePods(t, ns, before)
	waitAddresses(t, ns, held)
	if now := run(t, ns, "get", "controllerrevisions", "-o", all); now != revisions || strings.Count(now, "\n") != 1 {
		t.Errorf("revisions were\n%s\nare\n%s", revisions, now)
	}
	uid := string(getPod2(t, ns, "web").UID)
	if got := run(t, ns, "get", "controllerrevisions", "-o", "jsonpath={.items[*].metadata.ownerReferences[*].uid}"); got != uid+" "+uid {
		t.Errorf("revisions belong to %s, want %s", got, uid)
	}
	// The pods are fully adopted: the next update includes them.
	setVersion(t, ns, "web", "1")
	eventually(t, "the update is complete", func(context.Context) (string, error) {
		for name, pod := range listPods(t, ns) {
			if version(pod) != "1" || !available(pod) {
				return name + " is not updated", nil
			}
		}
		return "", nil
	})
	waitAddresses(t, ns, held)
}

// The Service of such pods is adopted with them. Its slices are deleted while it has no
// controller, and are created again. The name of a deleted pod does not come back. The
// Service and its slices are also adopted if a user removes their owner references.
func TestOrphanedNamesAreAdopted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	d := startDNS(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 3`+blue))
	waitReady(t, ns, "pod2/web")
	waitNames(t, ns)
	d.wait("ip4", "web-0.web-blue", addressOn(listPods(t, ns)["web-0"], "blue"))
	service := func(what string) string {
		t.Helper()
		return run(t, ns, "get", "service/web-blue", "-o", "jsonpath={.metadata."+what+"}")
	}
	before := service("uid")

	run(t, ns, "delete", "pod2", "web", "--cascade=orphan")
	if owners := service("ownerReferences[*].uid"); owners != "" {
		t.Fatalf("the Service is not orphaned: %s owns it", owners)
	}
	eventually(t, "the slice is deleted", func(ctx context.Context) (string, error) { return slicesOf(ctx, ns, 0) })
	run(t, ns, "delete", "pod", "web-2")
	create(t, ns, pod2("web", `replicas: 2`+blue))
	waitAdopted(t, ns, "web", 2)
	d.wait("ip4", "web-2.web-blue", noSuchHost)
	waitNames(t, ns)
	waitCondition(t, ns, "pod2/web", "DNSPublished", "True Published")
	run(t, ns, "scale", "pod2", "web", "--replicas=4")
	waitReady(t, ns, "pod2/web")
	d.wait("ip4", "web-3.web-blue", addressOn(listPods(t, ns)["web-3"], "blue"))

	run(t, ns, "patch", "service/web-blue", "endpointslice/web-blue-0", "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`)
	waitNames(t, ns)
	uid := string(getPod2(t, ns, "web").UID)
	if owners := service("ownerReferences[*].uid") + " " + run(t, ns, "get", "endpointslice/web-blue-0", "-o", "jsonpath={.metadata.ownerReferences[*].uid}"); owners != uid+" "+uid {
		t.Errorf("Service and slice belong to %s, want %s", owners, uid)
	}
	if now := service("uid"); now != before {
		t.Errorf("the Service was %s and is %s", before, now)
	}
	run(t, ns, "delete", "pod2", "web")
	waitGone(t, ns, "services,endpointslices")
}

// A StatefulSet's pods on no Network, which the controller's watch does not show, are
// adopted without a restart. If a pod differs from the template, its replica waits, and the
// condition names the difference until the template is fixed.
func TestPodsOfAStatefulSetAreAdopted(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers: [{name: c, image: "registry.k8s.io/pause:3.10", env: [{name: A, value: b}], resources: {requests: {cpu: "0.01"}}}]
      volumes: [{name: cache, emptyDir: {}}]
`)
	run(t, ns, "rollout", "status", "statefulset/web", "--timeout="+patience.String())
	before := uids(t, ns)
	web := func(image, cpu string) string {
		return fmt.Sprintf(`
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: a}}
    spec:
      containers: [{name: c, image: "registry.k8s.io/pause:%s", env: [{name: A, value: b}], resources: {requests: {cpu: %s}}}]
      volumes: [{name: cache, emptyDir: {}}]
`, image, cpu)
	}
	create(t, ns, web("3.9", "10m"))
	waitCondition(t, ns, "pod2/web", "Ready", "False NameTaken: pod web-0 already exists and is owned by StatefulSet web: delete the StatefulSet with --cascade=orphan. ")
	run(t, ns, "delete", "statefulset", "web", "--cascade=orphan")
	waitCondition(t, ns, "pod2/web", "Ready", "False NameTaken: pod web-0 already exists and has no controller, but it differs from the template in "+
		`spec.containers[c].image (the pod has "registry.k8s.io/pause:3.10", the template "registry.k8s.io/pause:3.9"): delete it or change the template `)
	requireSamePods(t, ns, before)
	patchPod2(t, ns, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"registry.k8s.io/pause:3.10","env":[{"name":"A","value":"b"}],"resources":{"requests":{"cpu":"10m"}}}]}}}}`)
	waitAdopted(t, ns, "web", 3)
	waitReady(t, ns, "pod2/web")
	requireSamePods(t, ns, before)
}

// The commands of docs/how-to/migrate-from-statefulset.md work as written, also for a
// reader whose own namespace has the objects of the demo.
func TestMigrateFromStatefulSet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	run(t, ns, "create", "-f", filepath.Join(root, "example/example-network.yaml"), "-f", filepath.Join(root, "example/example-any-workload.yaml"))
	admissionPolicy(t, ns)
	sweepAfter(t, "migration")
	startController(t, "migration")
	runUserPage(t, ns, checkout(t), "docs/how-to/migrate-from-statefulset.md", "")
}
