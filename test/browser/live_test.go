package browser

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

const rightsOfViewer = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
`

const rightsOnNodes = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes}
rules:
- {apiGroups: [""], resources: [nodes, pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
`

const workload = `
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: blue}
spec: {cidr: 10.1.0.0/29}
---
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web}
spec:
  replicas: 2
  networks: [{name: blue}]
  template: {spec: {containers: [{name: app, image: "nginx:1"}]}}
`

// A user with the role view follows the page through a day of work, without a reload. The API
// server is real, and so are the command and the controller.
func TestLive(t *testing.T) {
	l := newLive(t, "-n", "default", "--as=viewer")
	l.controller()
	l.run(rightsOfViewer, "apply", "-n", "default", "-f", "-")
	l.open("networks")
	l.shows("This namespace has no Network.")
	l.do(chromedp.Evaluate("window.loaded = 'once'", nil))
	l.run(workload, "apply", "-n", "default", "-f", "-")
	l.shows("default/blue")
	l.visit("pod2s/default/web")
	l.shows("2 desired, 2 exist, 2 ready, 2 updated, 2 available")

	l.run("", "scale", "-n", "default", "pod2s.samplecrd.k8s.io/web", "--replicas=4")
	l.shows("4 desired, 4 exist, 4 ready, 4 updated, 4 available")

	// A rollout that stops half-way.
	patch := func(spec string) {
		l.Helper()
		l.run("", "patch", "-n", "default", "pod2s.samplecrd.k8s.io", "web", "--type=merge", "-p", `{"spec": `+spec+`}`)
	}
	patch(`{"updateStrategy": {"rollingUpdate": {"partition": 2}}, "template": {"spec": {"containers": [{"name": "app", "image": "nginx:2"}]}}}`)
	l.shows("4 desired, 4 exist, 4 ready, 2 updated, 4 available. RollingUpdate, partition 2")
	l.shows("Revision 2 (update)")
	if old, updated := l.count(".replicas li:not(.updated)"), l.count(".replicas li.updated"); old != 2 || updated != 2 {
		t.Errorf("the page shows %d replicas of the old revision and %d of the new one, want 2 and 2", old, updated)
	}
	patch(`{"updateStrategy": {"rollingUpdate": {"partition": 0}}}`)
	l.shows("4 desired, 4 exist, 4 ready, 4 updated, 4 available")

	// The Network has five addresses.
	l.run("", "scale", "-n", "default", "pod2s.samplecrd.k8s.io/web", "--replicas=6")
	l.visit("waiting")
	l.shows("NetworkExhausted")
	l.shows("Grow the CIDR of the Network")
	l.visit("networks")
	l.shows("1: NetworkExhausted")

	// A right that the user lacks, until an administrator grants it.
	l.visit("topology/default/blue")
	l.shows("You lack a right, so nodes are not shown: list and watch nodes.")
	l.shows("5 pods on")
	l.run(rightsOnNodes, "apply", "-f", "-")
	l.shows("of 2 nodes")
	l.hides("You lack a right")

	// The API server is away.
	l.visit("networks")
	start := l.stopAPIServer()
	l.shows("The API server does not answer. The networks are from")
	l.shows("default/blue")
	if l.count("#alerts time[datetime]") == 0 {
		t.Error("the page does not say since when its data is old")
	}
	start()
	begin := time.Now()
	l.hides("The API server does not answer")
	t.Logf("the page recovered %s after the API server", time.Since(begin).Round(time.Millisecond))
	l.run("", "annotate", "-n", "default", "networks.samplecrd.k8s.io", "blue", "samplecrd.k8s.io/allow-deletion=true")
	l.run("", "delete", "-n", "default", "networks.samplecrd.k8s.io", "blue", "--wait=false")
	l.shows("is being deleted")
	var loaded string
	l.do(chromedp.Evaluate("window.loaded ?? 'again'", &loaded))
	if loaded != "once" {
		t.Errorf("the page was loaded %s", loaded)
	}
}

// A bind is on the page within a second of its write. The bound is for the fastest of five,
// because other programs run on the machine.
func TestBindIsLive(t *testing.T) {
	l := newLive(t, "-n", "binds")
	l.run("", "create", "namespace", "binds")
	l.run(`{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: green}, spec: {cidr: 10.2.0.0/24}}`, "apply", "-n", "binds", "-f", "-")
	l.controller()
	l.open("search/late")
	l.shows("No address, pod, owner, node or MAC matches.")
	if err := l.waitForAccount(t.Context(), "binds"); err != nil {
		t.Fatal(err)
	}
	ledger, err := l.controlPlane.sample.SamplecrdV1().AddressBlocks("binds").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Stop()
	written := make(chan time.Time, 10)
	go func() {
		entries := 0
		for event := range ledger.ResultChan() {
			if b, ok := event.Object.(*v1.AddressBlock); ok && len(b.Spec.Entries) > entries {
				entries = len(b.Spec.Entries)
				written <- time.Now()
			}
		}
	}()
	var afterWrite, afterCreate []time.Duration
	for i := range 5 {
		name := fmt.Sprint("late-", i)
		created := time.Now()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.ManagedLabel: "true"}, Annotations: map[string]string{v1.NetworksAnnotation: "green"}},
			Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := l.controlPlane.kube.CoreV1().Pods("binds").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l.shows(name)
		shown := time.Now()
		afterCreate = append(afterCreate, shown.Sub(created).Round(time.Millisecond))
		select {
		case at := <-written:
			afterWrite = append(afterWrite, shown.Sub(at).Round(time.Millisecond))
		case <-time.After(patience):
			t.Fatal("the page shows an address that no AddressBlock has")
		}
	}
	t.Logf("on the page %v after the write of the AddressBlock, %v after the pod was created", afterWrite, afterCreate)
	if fastest := slices.Min(afterWrite); fastest > time.Second {
		t.Errorf("the fastest bind is on the page after %s, want a second or less", fastest)
	}
}
