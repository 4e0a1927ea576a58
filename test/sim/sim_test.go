package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// Each broken promise is reported: otherwise silence would prove nothing.
func TestPromisesThatAreBroken(t *testing.T) {
	pod := func(name, address string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, ownerReferences: [{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, name: web, uid: u` +
			`, controller: true}], annotations: {samplecrd.k8s.io/addresses: '{"blue":{"address":"` + address + `/24"}}'}}, spec: {containers: [{name: a, image: a}]}}`
	}
	blockOf := func(pod, address string) string {
		return `{apiVersion: samplecrd.k8s.io/v1, kind: AddressBlock, metadata: {name: blue-10.0.0.0}, spec: {network: blue, networkUID: 00000000-0000-4000-8000-000000000001, cidr: 10.0.0.0/24, ` +
			`entries: [{address: ` + address + `, pod: web-0, podUID: ` + pod + `, state: Bound, since: "2000-01-01T00:00:00Z"}]}}`
	}
	block := func(address string) string { return blockOf("u", address) }
	const first = "00000000-0000-4000-8000-000000000002" // the pod that is created first
	for _, test := range []struct {
		name, want string
		do         func(w *World)
	}{
		{"shared", "S1: 10.0.0.2 of Network default/blue is held by", func(w *World) { w.Create(pod("web-0", "10.0.0.2"), pod("web-1", "10.0.0.2")) }},
		{"shared in another namespace", "S1: 10.0.0.2 of Network other/blue is held by", func(w *World) {
			w.Create(elsewhere(pod("web-0", "10.0.0.2")), elsewhere(pod("web-1", "10.0.0.2")))
		}},
		{"the same in two namespaces", "", func(w *World) { w.Create(pod("web-0", "10.0.0.2"), elsewhere(pod("web-0", "10.0.0.2"))) }},
		{"outside", "S2: 10.0.1.2 of Network blue", func(w *World) { w.Create(block("10.0.1.2")) }},
		{"the network address", "S2: 10.0.0.0 of Network blue", func(w *World) { w.Create(block("10.0.0.0")) }},
		{"broadcast", "S2: 10.0.0.255 of Network blue", func(w *World) { w.Create(block("10.0.0.255")) }},
		{"gateway", "S2: 10.0.0.1 of Network blue", func(w *World) { w.Create(block("10.0.0.1")) }},
		{"excluded", "S2: 10.0.0.9 of Network blue", func(w *World) { w.Create(block("10.0.0.9")) }},
		{"broadcast address in the smaller CIDR of a running pod", "S2: 10.0.0.15 of Network blue is bound to web-0, but it is the network or broadcast address for web-1", func(w *World) {
			w.Create(strings.Replace(pod("web-1", "10.0.0.12"), "/24", "/29", 1), block("10.0.0.15"))
		}},
		{"a pod with the smaller CIDR starts later", "S2: 10.0.0.16 of Network blue is bound to web-0, but it is the network or broadcast address for web-1", func(w *World) {
			w.Create(block("10.0.0.16"), strings.Replace(pod("web-1", "10.0.0.18"), "/24", "/29", 1))
		}},
		{"a usable address", "", func(w *World) { w.Create(block("10.0.0.20")) }},
		{"written back for the pod that publishes it", "", func(w *World) { w.Create(pod("web-0", "10.0.0.9"), blockOf(first, "10.0.0.9")) }},
		{"written back for another pod", "S2: 10.0.0.9 of Network blue", func(w *World) { w.Create(pod("web-0", "10.0.0.9"), block("10.0.0.9")) }},
		{"written back for a terminated pod", "S2: 10.0.0.9 of Network blue", func(w *World) {
			w.Create(pod("web-0", "10.0.0.9"))
			apiserver.Edit(w.Server, "kubelet", apiserver.List[*corev1.Pod](w.Server, "pods")[0], func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
			w.Create(blockOf(first, "10.0.0.9"))
		}},
		{"written back for a waiting pod", "S2: 10.0.0.9 of Network blue", func(w *World) {
			waits := strings.Replace(pod("web-0", "10.0.0.9"), "spec: {", "spec: {schedulingGates: [{name: samplecrd.k8s.io/addresses}], ", 1)
			w.Create(waits, blockOf(first, "10.0.0.9"))
		}},
		{"moved", "S3: web-0 had 10.0.0.2 of Network blue, and now has 10.0.0.3", func(w *World) {
			w.Create(pod("web-0", "10.0.0.2"))
			w.Destroy("pods", "web-0")
			w.Create(pod("web-0", "10.0.0.3"))
		}},
		{"in use", "S8: Network blue is removed while AddressBlock blue-10.0.0.0 is not sealed", func(w *World) {
			w.Create(block("10.0.0.10"))
			w.Delete("networks", "blue", "")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &World{Cluster: NewCluster()}
			w.Create(`{apiVersion: samplecrd.k8s.io/v1, kind: Network, metadata: {name: blue, annotations: {samplecrd.k8s.io/gateway: 10.0.0.1}}, spec: {cidr: 10.0.0.0/24, exclude: [10.0.0.8/30]}}`)
			w.Watch(NewPromises())
			test.do(w)
			if got := strings.Join(w.Faults(), "\n"); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// S4 with a surge of a quarter of four replicas.
func TestPromiseOfNoMoreThanThereMayBe(t *testing.T) {
	w := &World{Cluster: NewCluster()}
	w.Create(`{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, metadata: {name: web}, spec: {replicas: 4, updateStrategy: {rollingUpdate: {maxSurge: 25%}}}}`)
	owner := string(apiserver.List[*v1.Pod2](w.Server, "pod2s")[0].UID)
	said := func() string {
		pods := apiserver.List[*corev1.Pod](w.Server, "pods")
		return tooMany(w.Cluster, pods[len(pods)-1])
	}
	for i := range 5 {
		w.Create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: web-%d, ownerReferences: [{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, name: web, uid: %s, controller: true}]}, spec: {containers: [{name: a, image: a}]}}`, i, owner))
		if got := said(); got != "" {
			t.Fatalf("with %d pods: %s", i+1, got)
		}
	}
	w.Create(`{apiVersion: v1, kind: Pod, metadata: {name: web-5, ownerReferences: [{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, name: web, uid: ` + owner + `, controller: true}]}, spec: {containers: [{name: a, image: a}]}}`)
	if got, want := said(), "S4: web-5 is created: 6 pods of web exist, and at most 5 may"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Requests without preconditions, or for another owner's object.
func TestPromisesOfRequests(t *testing.T) {
	w := &World{Cluster: NewCluster()}
	w.Create(`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: used}}], containers: [{name: a, image: a}]}}`)
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: name, UID: "u"}}
	}
	w.Create(`{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, metadata: {name: web}, spec: {replicas: 1}}`)
	of := func(kind, owner string, gates ...string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "web", UID: types.UID(owner), Controller: ptr.To(true)}}}}
		for _, gate := range gates {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
		}
		return pod
	}
	ours := string(apiserver.List[*v1.Pod2](w.Server, "pod2s")[0].UID)
	foreign := of("ReplicaSet", "other")
	for _, test := range []struct {
		name, want string
		request    apiserver.Request
	}{
		{"deletion without a UID", "S7", apiserver.Request{Verb: "DELETE", Resource: "pods", Name: "a"}},
		{"deletion without a resourceVersion", "S7", apiserver.Request{Verb: "DELETE", Resource: "pods", Name: "a", UID: "u"}},
		{"update without a resourceVersion", "S7", apiserver.Request{Verb: "PUT", Resource: "networks", Name: "a", UID: "u"}},
		{"patch without a UID", "S7", apiserver.Request{Verb: "PATCH", Resource: "pods", Name: "a", Version: "1"}},
		{"patch without a resourceVersion", "S7", apiserver.Request{Verb: "PATCH", Resource: "pods", Name: "a", UID: "u"}},
		{"create without a name", "S7", apiserver.Request{Verb: "POST", Resource: "pods"}},
		{"another owner's pod deleted", "S6", apiserver.Request{Verb: "DELETE", Resource: "pods", Name: "a", UID: "u", Version: "1", Target: foreign}},
		{"a pod of a Pod2 deleted", "", apiserver.Request{Verb: "DELETE", Resource: "pods", Name: "a", UID: "u", Version: "1", Target: of("Pod2", ours)}},
		{"a pod of another Pod2 with the name deleted", "S6", apiserver.Request{Verb: "DELETE", Resource: "pods", Name: "a", UID: "u", Version: "1", Target: of("Pod2", "other")}},
		{"conditions of another owner's pod", "S6", apiserver.Request{Verb: "PATCH", Resource: "pods", Subresource: "status", Name: "a", UID: "u", Target: foreign}},
		{"conditions of a pod that waits for addresses", "", apiserver.Request{Verb: "PATCH", Resource: "pods", Subresource: "status", Name: "a", UID: "u", Target: of("ReplicaSet", "other", v1.AddressesGate)}},
		{"conditions of a pod with another gate", "S6", apiserver.Request{Verb: "PATCH", Resource: "pods", Subresource: "status", Name: "a", UID: "u", Target: of("ReplicaSet", "other", "example.com/gate")}},
		{"a PVC in use deleted", "S6", apiserver.Request{Verb: "DELETE", Resource: "persistentvolumeclaims", Name: "used", UID: "u", Version: "1", Target: claim("used")}},
		{"an unused PVC deleted", "", apiserver.Request{Verb: "DELETE", Resource: "persistentvolumeclaims", Name: "unused", UID: "u", Version: "1", Target: claim("unused")}},
		{"another pod with the name", "", apiserver.Request{Verb: "DELETE", Resource: "pods", Name: "a", UID: "other", Version: "1", Target: foreign}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := NewPromises().Request(w.Cluster, test.request); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A run that ends without being killed or cut off is a fault: the tests would continue
// without it.
func TestRunsThatEnd(t *testing.T) {
	until := func(ctx context.Context, _ *rest.Config) error { <-ctx.Done(); return ctx.Err() }
	fails := func(context.Context, *rest.Config) error { return errors.New("refused") }
	for _, test := range []struct {
		name, want string
		program    Program
		configure  func(*Process)
	}{
		{"killed", "", until, nil},
		{"an error", "run 1 ended without being killed: refused", fails, nil},
		{"cut off", "", fails, func(p *Process) { p.HoldAll = true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := NewWorld(test.program, nil, nil)
				p := w.Start("run 1", test.configure)
				time.Sleep(time.Second)
				p.Kill()
				w.Close()
				if got := strings.Join(w.Faults(), "\n"); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// A client obeys Retry-After, also with a director: it sends the request again, and its
// caller does not have to.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var took time.Duration
		w := NewWorld(func(ctx context.Context, config *rest.Config) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(apiserver.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				t.Errorf("create: %v", err)
			}
			took = time.Since(began)
			<-ctx.Done()
			return ctx.Err()
		}, nil, nil)
		w.Break(apiserver.Fault{On: []string{"POST pods"}, Hits: apiserver.First(2), Error: apiserver.ErrBusy})
		w.Start("client", nil)
		time.Sleep(time.Minute)
		w.Close()
		if took != 2*time.Second {
			t.Errorf("created after %s, want 2s", took)
		}
	})
}
