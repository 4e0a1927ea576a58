//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
)

// Watched objects become events and a state. There is one only if a relevant part has changed.
func TestView(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u-a", Labels: map[string]string{v1.ManagedLabel: "true"},
		Annotations: map[string]string{v1.AddressesAnnotation: `{"blue":{"address":"192.168.0.2/16","mac":"0a:58:c0:a8:00:02"}}`}}, Spec: corev1.PodSpec{NodeName: "n1"}}
	other := pod.DeepCopy()
	other.Name, other.UID, other.Labels = "other", "u-other", nil
	network := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}, Spec: v1.NetworkSpec{CIDR: "192.168.0.0/16"}, Status: v1.NetworkStatus{VNI: 1001, Gateway: "192.168.0.1"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}}}, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](6443)}}}
	elsewhere, foreign := slice.DeepCopy(), slice.DeepCopy()
	elsewhere.Namespace = "other"
	foreign.Name, foreign.Labels = "foreign", nil
	c := clients{kube: kubefake.NewSimpleClientset(pod, other, node, slice, elsewhere, foreign), sample: samplefake.NewSimpleClientset(network), underlayMTU: 1500}
	rings := make(chan bool, 100)
	events := make(recorder, 100)
	view := newView(c, events, func() { rings <- true })
	if !view.start(t.Context()) {
		t.Fatal("not started")
	}
	for range 3 { // one for each object but the pod
		<-rings
	}
	s := view.state()
	if got, want := fmt.Sprint(s.Networks, s.Nodes, s.APIServers),
		"[{default blue 1001 192.168.0.0/16 192.168.0.1 1450 true}] [{n1 [10.0.0.1]}] [10.0.0.9:6443]"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	told := []string{<-events, <-events, <-events} // before start returned
	slices.Sort(told)
	if got, want := strings.Join(told, "\n"), `set Network {default blue 1001 192.168.0.0/16 192.168.0.1 1450 true}
set Node {n1 [10.0.0.1]}
set Pod {default a u-a n1 0001-01-01 00:00:00 +0000 UTC [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// The agent ignores the counts of a Network and the heartbeat of a node.
	network.Status.Bound = 5
	_, err := c.sample.SamplecrdV1().Networks("default").UpdateStatus(t.Context(), network, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations = map[string]string{"x": "y"}
	if _, err := c.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodFailed
	if _, err := c.kube.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-events, "delete Pod default/a u-a"; got != want {
		t.Errorf("the pod has terminated: got %s, want %s", got, want)
	}
	if err := c.sample.SamplecrdV1().Networks("default").Delete(t.Context(), "blue", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-rings
	if got, want := <-events, "delete Network default/blue"; got != want {
		t.Errorf("the Network is gone: got %s, want %s", got, want)
	}
	select {
	case <-rings:
		t.Error("rang for an irrelevant change")
	case e := <-events:
		t.Errorf("told of an irrelevant change: %s", e)
	case <-time.After(100 * time.Millisecond):
	}
}

// recorder of events.
type recorder chan string

func (r recorder) SetPod(p dataplane.Pod) { r <- fmt.Sprint("set Pod ", p) }

func (r recorder) DeletePod(namespace, name string, uid types.UID) {
	r <- fmt.Sprintf("delete Pod %s/%s %s", namespace, name, uid)
}

func (r recorder) SetNetwork(n dataplane.Network) { r <- fmt.Sprint("set Network ", n) }

func (r recorder) DeleteNetwork(namespace, name string) {
	r <- fmt.Sprintf("delete Network %s/%s", namespace, name)
}

func (r recorder) SetNode(n dataplane.Node) { r <- fmt.Sprint("set Node ", n) }
func (r recorder) DeleteNode(name string)   { r <- "delete Node " + name }
