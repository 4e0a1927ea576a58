//go:build linux

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Watched objects become events and a state. There is one only if a relevant part has changed.
func TestView(t *testing.T) {
	pod, node := podOn("a", "blue"), nodeN1()
	other, far := podOn("other", "blue"), podOn("far", "blue")
	other.Labels, far.Spec.NodeName = nil, "n2"
	foreign := node.DeepCopy()
	foreign.Name = "n2"
	api := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}}}, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](6443)}}}
	elsewhere, unrelated := api.DeepCopy(), api.DeepCopy()
	elsewhere.Namespace = "other"
	unrelated.Name, unrelated.Labels = "foreign", nil
	blue := sliceOf("blue", 0, "192.168.0.3=10.0.0.2")
	r := newRoom(t, []runtime.Object{pod, other, far, node, foreign, api, elsewhere, unrelated}, nodesSlice("10.0.0.1", "10.0.0.2"), blue, sliceOf("green", 0))
	r.start()
	r.expect(setNode, setNodes, setBlue, "set Pod default/a u-a [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]")
	for range 3 { // the node, the addresses of nodes, the API server
		<-r.rings
	}
	s := r.state()
	if got, want := fmt.Sprint(s.Self, s.Nodes, s.APIServers), "[10.0.0.1] [10.0.0.1 10.0.0.2] [10.0.0.9:6443]"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// The agent ignores the labels of a slice and the heartbeat of a node.
	blue.Labels["x"] = "y"
	r.update(blue)
	node.Annotations = map[string]string{"x": "y"}
	r.do(r.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}))
	r.expectNothing()
	pod.Status.Phase = corev1.PodFailed
	r.do(r.kube.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))
	r.expect("delete Pod default/a u-a", "delete Network default/blue")
	r.expectNothing()
}

// The API server sends only the objects that the agent needs: a client in memory ignores most selectors.
func TestSelectors(t *testing.T) {
	r := newRoom(t, []runtime.Object{podOn("a", "blue"), nodeN1()}, nodesSlice("10.0.0.1"))
	r.start()
	wanted := []string{`pods in "" with samplecrd.k8s.io/managed=true and spec.nodeName=n1`, `nodes in "" with  and metadata.name=n1`,
		`endpointslices in "default" with kubernetes.io/service-name=kubernetes and `,
		`addressslices in "kube-system" with samplecrd.k8s.io/nodes=true and `, `addressslices in "default" with samplecrd.k8s.io/network=blue and `}
	watched := map[string]bool{}
	for end := time.Now().Add(10 * time.Second); len(watched) < len(wanted) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // they begin after the lists
		for _, a := range append(r.kube.Actions(), r.sample.Actions()...) {
			if w, ok := a.(clienttesting.WatchAction); ok {
				x := w.GetWatchRestrictions()
				watched[fmt.Sprintf("%s in %q with %s and %s", a.GetResource().Resource, a.GetNamespace(), x.Labels, x.Fields)] = true
			}
		}
	}
	for _, want := range wanted {
		if !watched[want] {
			t.Errorf("does not watch %s", want)
		}
		delete(watched, want)
	}
	if len(watched) > 0 {
		t.Errorf("also watches %v", watched)
	}
}

// A Network is followed from its first pod on this node to its last one, and again after that.
func TestNetworkComesAndLeaves(t *testing.T) {
	r := newRoom(t, []runtime.Object{nodeN1()}, nodesSlice("10.0.0.1", "10.0.0.2"), sliceOf("blue", 0, "192.168.0.3=10.0.0.2"), sliceOf("green", 0))
	r.start()
	r.expect(setNode, setNodes)
	for range 2 {
		<-r.rings
	}
	for range 2 {
		r.create(podOn("a", "blue"))
		r.expect("set Pod default/a u-a [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]", setBlue)
		r.create(podOn("b", "blue"))
		r.expect("set Pod default/b u-b [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]")
		r.delete("a")
		r.expect("delete Pod default/a u-a")
		r.update(sliceOf("blue", 0, "192.168.0.4=10.0.0.2"))
		r.expect("set blue-0 70001 [{192.168.0.4 10.0.0.2}]")
		r.delete("b")
		r.expect("delete Pod default/b u-b", "delete Network default/blue")
		r.update(sliceOf("blue", 0, "192.168.0.3=10.0.0.2"))
		r.expectNothing()
	}
}

// A slice moves an address to another host, and another one to a second slice: the agent hears of both slices.
func TestSliceChanges(t *testing.T) {
	r := newRoom(t, []runtime.Object{nodeN1(), podOn("a", "blue")}, nodesSlice("10.0.0.1", "10.0.0.2"), sliceOf("blue", 0, "192.168.0.3=10.0.0.2"))
	r.start()
	r.expect(setNode, setNodes, setBlue, "set Pod default/a u-a [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]")
	r.update(sliceOf("blue", 0, "192.168.0.3=10.0.0.3"))
	r.expect("set blue-0 70001 [{192.168.0.3 10.0.0.3}]")
	r.do(r.sample.SamplecrdV1().AddressSlices("default").Create(t.Context(), sliceOf("blue", 1, "192.168.0.3=10.0.0.3"), metav1.CreateOptions{}))
	r.expect("set blue-1 [{192.168.0.3 10.0.0.3}]")
	r.do(nil, r.sample.SamplecrdV1().AddressSlices("default").Delete(t.Context(), "blue-1", metav1.DeleteOptions{}))
	r.expect("delete blue-1")
}

// An agent that restarts while the controller is away gets the same from the API server.
func TestRestartWithoutController(t *testing.T) {
	r := newRoom(t, []runtime.Object{nodeN1(), podOn("a", "blue")}, nodesSlice("10.0.0.1", "10.0.0.2"), sliceOf("blue", 0, "192.168.0.3=10.0.0.2"))
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		if !r.view.start(ctx) {
			t.Fatal("not started")
		}
		r.expect(setNode, setNodes, setBlue, "set Pod default/a u-a [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]")
		stop()
		r.view = newView(clients{kube: r.kube, sample: r.sample, underlayMTU: 1500}, "n1", r.events, func() { r.rings <- true })
	}
}

// The view has started once all lists are there, those of the Networks of its pods too, and an AddressSlice of
// nodes. A Network without AddressSlices does not delay it.
func TestStartWaits(t *testing.T) {
	for _, missing := range []string{v1.NetworkLabel + "=blue", v1.NodesLabel + "=true"} {
		t.Run(missing, func(t *testing.T) {
			r := newRoom(t, []runtime.Object{nodeN1(), podOn("a", "blue", "gone")}, sliceOf("blue", 0, "192.168.0.3=10.0.0.2"))
			blocked := make(chan bool)
			r.sample.PrependReactor("list", "addressslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if a.(clienttesting.ListAction).GetListRestrictions().Labels.String() == missing {
					<-blocked
				}
				return false, nil, nil
			})
			create := func() {
				r.do(r.sample.SamplecrdV1().AddressSlices("kube-system").Create(t.Context(), nodesSlice("10.0.0.1", "10.0.0.2"), metav1.CreateOptions{}))
			}
			if missing != v1.NodesLabel+"=true" {
				create()
			}
			started := make(chan bool, 1)
			go func() { started <- r.view.start(t.Context()) }()
			waits := func() {
				select {
				case <-started:
					t.Fatal("started without it")
				case <-time.After(300 * time.Millisecond): // it looks each 100 ms
				}
			}
			waits()
			close(blocked)
			if missing == v1.NodesLabel+"=true" {
				waits() // the list is empty
				create()
			}
			if !<-started {
				t.Error("not started")
			}
			r.expect(setNode, setNodes, setBlue, "set Pod default/a u-a [{blue 192.168.0.2 0a:58:c0:a8:00:02 16} {gone 192.168.0.2 0a:58:c0:a8:00:02 16}]")
		})
	}
}
