//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"
)

// backedUpKinds are the kinds that a backup of a namespace contains and Pod2 needs.
var backedUpKinds = map[string]schema.GroupVersionResource{
	"networks":     {Group: "samplecrd.k8s.io", Version: "v1", Resource: "networks"},
	"blocks":       {Group: "samplecrd.k8s.io", Version: "v1", Resource: "addressblocks"},
	"pod2s":        {Group: "samplecrd.k8s.io", Version: "v1", Resource: "pod2s"},
	"pods":         {Version: "v1", Resource: "pods"},
	"revisions":    {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	"statefulsets": {Group: "apps", Version: "v1", Resource: "statefulsets"},
}

const restoredSet = `---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}, annotations: {samplecrd.k8s.io/networks: blue}}
    spec: {containers: [{name: a, image: registry.k8s.io/pause:3.10}]}
`

const restoredPod = `---
apiVersion: v1
kind: Pod
metadata: {name: bare, annotations: {samplecrd.k8s.io/networks: "blue"}}
spec: {containers: [{name: a, image: registry.k8s.io/pause:3.10}]}
`

// A namespace is restored like by Velero, in several orders. In every order, each pod has
// its earlier address.
func TestRestoredNamespace(t *testing.T) {
	for _, order := range []string{
		"pods blocks revisions networks pod2s statefulsets", // Velero's own order
		"networks blocks revisions pod2s statefulsets pods",
		"statefulsets pod2s pods networks blocks revisions",
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			validationPolicies(t, ns)
			startController(t, ns)
			create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+restoredPod)
			waitReady(t, ns, "pod/bare") // this pod has the lowest address, which a new pod would get
			create(t, ns, restoredSet+pod2("web", `replicas: 3`+blue))
			waitReady(t, ns, "pod2/web", "pod/db-0", "pod/db-1")
			held, before := render(addresses(t, ns)), uids(t, ns)

			backup := map[string][]unstructured.Unstructured{}
			for kind, resource := range backedUpKinds {
				list, err := dyn.Resource(resource).Namespace(ns).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				backup[kind] = list.Items
			}
			recreateNamespace(t, ns)
			for kind := range strings.FieldsSeq(order) {
				for _, object := range backup[kind] {
					_, err := dyn.Resource(backedUpKinds[kind]).Namespace(ns).Create(t.Context(), stripped(object), metav1.CreateOptions{})
					if err != nil && !apierrors.IsAlreadyExists(err) { // Velero continues, too
						t.Fatal(err)
					}
				}
			}

			waitReady(t, ns, "pod2/web", "pod/bare", "pod/db-0", "pod/db-1")
			waitAddresses(t, ns, held)
			requireUnique(t, ns)
			waitAdopted(t, ns, "web", 3)
			for name, uid := range uids(t, ns) {
				if uid == before[name] {
					t.Errorf("pod %s has its earlier UID: nothing was restored", name)
				}
			}
			eventually(t, "the AddressBlocks agree with the pods", func(context.Context) (string, error) { return ledgerDiffers(t, ns), nil })
		})
	}
}

// stripped returns the object that a restore creates.
func stripped(object unstructured.Unstructured) *unstructured.Unstructured {
	o := object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences", "finalizers", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "spec", "nodeName")
	return o
}

// recreateNamespace deletes a namespace with all objects, and creates it again.
func recreateNamespace(t *testing.T, namespace string) {
	t.Helper()
	run(t, "", "delete", "namespace", namespace, "--timeout="+patience.String())
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the default service account of "+namespace, func(ctx context.Context) (string, error) {
		_, err := kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return "", err
	})
}

// A user who may not bind cannot use the path of a restore, neither to take an address nor
// to keep one.
func TestOnlyWhoMayBindRestores(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`))
	waitReady(t, ns, "network/blue")
	u := newUser(t, ns, "restorer")
	u.waitKnown(t, "blue")
	const brings = `{"blue":{"address":"10.0.0.7/24","gateway":"10.0.0.1","mac":"0a:58:0a:00:00:07"}}`
	if got := u.create(t, podWith("thief", "samplecrd.k8s.io/addresses", brings)); !strings.Contains(got, "pod2-pods") {
		t.Errorf("the answer to a pod created with an address is %q", got)
	}
	if got := u.create(t, addressBlock); !strings.Contains(got, "pod2-ledger") {
		t.Errorf("the answer to an AddressBlock is %q", got)
	}
	if pods := listPods(t, ns); len(pods) != 0 {
		t.Errorf("want no pods, got %s", fmt.Sprint(pods))
	}
}
