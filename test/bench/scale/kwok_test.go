package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pod2/pod2/test/bench/measure"
)

// The API server ends each watch after one event.
func TestTheWatchOfPodsNeverEnds(t *testing.T) {
	versions := make(chan string, 3)
	kube := fake.NewClientset()
	kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}}, nil
	})
	kube.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		from := a.(clienttesting.WatchAction).GetWatchRestrictions().ResourceVersion
		events := watch.NewFakeWithChanSize(1, false)
		select {
		case versions <- from:
			events.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-" + from, ResourceVersion: from + "0"}})
			events.Stop()
		default: // enough
		}
		return true, events, nil
	})
	proxy := httptest.NewServer(measure.Must(newProxy(&rest.Config{}, kube)))
	t.Cleanup(proxy.Close)
	response, err := http.Get(proxy.URL + "/api/v1/pods?watch=true&resourceVersion=0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	events := json.NewDecoder(response.Body)
	for _, want := range []string{"web-5", "web-50", "web-500"} {
		var event struct{ Object corev1.Pod }
		if err := events.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if got := event.Object.Name; got != want {
			t.Errorf("it tells %s, want %s", got, want)
		}
	}
}
