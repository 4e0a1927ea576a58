//go:build integration

package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// directly is a client of one replica.
func directly(t *testing.T, port string) dynamic.Interface {
	t.Helper()
	to := rest.CopyConfig(config)
	to.Host = "https://127.0.0.1:" + port
	to.Insecure, to.CAData, to.CAFile = true, nil, ""
	client, err := dynamic.NewForConfig(to)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A client lists from one replica, and watches from the other.
func TestAddressesOfTwoReplicas(t *testing.T) {
	aggregation(t)
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.1.0.0/24}`)+gatedPod("first", "blue"))
	waitReady(t, ns, "pod/first")
	one, _ := startAPIServer(t)
	aggregate(t, one) // waits until it serves
	// The other replica starts at a later version of each source, although none has changed.
	create(t, ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: newer}}`)
	run(t, ns, "get", "addressblocks.samplecrd.k8s.io,networks.samplecrd.k8s.io,pods")
	other, _ := startAPIServer(t)
	eventually(t, "the other replica serves", func(ctx context.Context) (string, error) {
		_, err := directly(t, other).Resource(addressesResource).Namespace(ns).List(ctx, metav1.ListOptions{})
		return "", err
	})
	for i, ports := range [][2]string{{one, other}, {other, one}} {
		list, err := directly(t, ports[0]).Resource(addressesResource).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := directly(t, ports[1]).Resource(addressesResource).Namespace(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			t.Fatalf("watch the other replica from version %s: %v", list.GetResourceVersion(), err)
		}
		pod := fmt.Sprintf("next-%d", i)
		create(t, ns, gatedPod(pod, "blue"))
		for seen := false; !seen; {
			select {
			case e, ok := <-w.ResultChan():
				if !ok || e.Type == watch.Error {
					t.Fatalf("the watch ends: %v", e.Object)
				}
				seen = nested(e.Object, "spec", "pod") == pod && nested(e.Object, "status", "node") != ""
			case <-time.After(patience):
				t.Fatalf("the watch does not show that %s is bound and scheduled", pod)
			}
		}
		w.Stop()
	}
}

// 10,000 addresses: a list takes less than a second, and an event comes less than 100 ms after
// that of the AddressBlock. The bounds are for the fastest list and for half of the events,
// because other programs run on the machine.
func TestTenThousandAddresses(t *testing.T) {
	aggregation(t)
	ns := newNamespace(t)
	const entries, count = 250, 40
	blocks := sample.SamplecrdV1().AddressBlocks(ns)
	for i := range count {
		b := &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("big-10.1.%d.0", i)},
			Spec: v1.AddressBlockSpec{Network: "big", NetworkUID: "uid", CIDR: fmt.Sprintf("10.1.%d.0/24", i)}}
		for e := range entries {
			b.Spec.Entries = append(b.Spec.Entries, v1.AddressEntry{Address: fmt.Sprintf("10.1.%d.%d", i, e+1), Pod: fmt.Sprintf("web-%d", i*entries+e), PodUID: "uid",
				Owner: v1.AddressOwner{Kind: "Pod2", Name: "web"}, State: v1.AddressBound, Since: metav1.Now()})
		}
		if _, err := blocks.Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	port, _ := startAPIServer(t)
	aggregate(t, port)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var lists []time.Duration
	for range 5 {
		start := time.Now()
		answer, err := client.Get(config.Host + "/apis/view.samplecrd.k8s.io/v1alpha1/namespaces/" + ns + "/addresses")
		if err != nil {
			t.Fatal(err)
		}
		size, err := io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || size < entries*count*100 {
			t.Fatalf("list: %d, %d bytes, %v", answer.StatusCode, size, err)
		}
		lists = append(lists, time.Since(start).Round(time.Millisecond))
	}
	t.Logf("lists of %d Addresses: %v", entries*count, lists)
	if fastest := slices.Min(lists); fastest > time.Second { // 0.3 s on an idle machine: other tests run meanwhile
		t.Errorf("the fastest list takes %s, want 1s or less", fastest)
	}

	ledger, err := blocks.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=big-10.1.7.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Stop()
	<-ledger.ResultChan()
	list, err := dyn.Resource(addressesResource).Namespace(ns).List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	view, err := dyn.Resource(addressesResource).Namespace(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer view.Stop()
	var behind []time.Duration
	for i := range 20 {
		run(t, ns, "patch", "addressblock", "big-10.1.7.0", "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/entries/5/pod","value":"other-%d"}]`, i))
		var times [2]time.Time
		for times[0].IsZero() || times[1].IsZero() {
			select {
			case e, ok := <-ledger.ResultChan():
				if times[0] = time.Now(); !ok || e.Type != watch.Modified {
					t.Fatalf("the watch of the ledger has %s, %t", e.Type, ok)
				}
			case e, ok := <-view.ResultChan():
				if times[1] = time.Now(); !ok || nested(e.Object, "spec", "pod") != fmt.Sprint("other-", i) {
					t.Fatalf("the watch of Addresses has %s %v, %t", e.Type, e.Object, ok)
				}
			case <-time.After(patience):
				t.Fatal("a watch shows no change")
			}
		}
		behind = append(behind, times[1].Sub(times[0]).Round(100*time.Microsecond))
	}
	slices.Sort(behind)
	t.Logf("events of Addresses come after those of the AddressBlock by %v", behind)
	if median := behind[len(behind)/2]; median > 100*time.Millisecond {
		t.Errorf("half of the events come later than %s, want 100ms or less", median)
	}
}

// nested is a text in an object, or "".
func nested(object runtime.Object, fields ...string) string {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	text, _, _ := unstructured.NestedString(u.Object, fields...)
	return text
}
