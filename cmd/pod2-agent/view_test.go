//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	samplefake "github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
)

// podOn is a pod of node n1 with an address on each of the Networks.
func podOn(name string, networks ...string) *corev1.Pod {
	var addresses []string
	for _, network := range networks {
		addresses = append(addresses, fmt.Sprintf(`%q:{"address":"192.168.0.2/16","mac":"0a:58:c0:a8:00:02"}`, network))
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name), Labels: map[string]string{v1.ManagedLabel: "true"},
		Annotations: map[string]string{v1.AddressesAnnotation: "{" + strings.Join(addresses, ",") + "}"}}, Spec: corev1.PodSpec{NodeName: "n1"}}
}

// sliceOf a Network, with "address=host" in each word. The first slice of a Network has its properties.
func sliceOf(network string, number int, locations ...string) *v1.AddressSlice {
	s := &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(network, "-", number), Labels: map[string]string{v1.NetworkLabel: network}}}
	if number == 0 {
		s.Spec.Overlay = &v1.OverlayProperties{VNI: 70001, CIDR: "192.168.0.0/16", Gateway: "192.168.0.1", Egress: v1.EgressNAT}
	}
	s.Spec.Locations = map[string]string{}
	for _, l := range locations {
		address, host, _ := strings.Cut(l, "=")
		s.Spec.Locations[address] = host
	}
	return s
}

func nodesSlice(addresses ...string) *v1.AddressSlice {
	s := &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "nodes.0", Labels: map[string]string{v1.NodesLabel: "true"}}}
	s.Spec.Locations = map[string]string{}
	for _, a := range addresses {
		s.Spec.Locations[a] = addresses[0]
	}
	return s
}

func nodeN1() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
}

// room is a view of a cluster in memory.
type room struct {
	*testing.T
	*view
	kube   *kubefake.Clientset
	sample *samplefake.Clientset
	rings  chan bool
	events recorder
}

// newRoom starts no watch yet.
func newRoom(t *testing.T, kube []runtime.Object, sample ...runtime.Object) *room {
	r := &room{T: t, kube: kubefake.NewSimpleClientset(kube...), sample: samplefake.NewSimpleClientset(sample...), rings: make(chan bool, 100), events: make(recorder, 100)}
	r.view = newView(clients{kube: r.kube, sample: r.sample, underlayMTU: 1500}, "n1", r.events, func() { r.rings <- true })
	return r
}

func (r *room) start() {
	r.Helper()
	if !r.view.start(r.Context()) {
		r.Fatal("not started")
	}
}

// expect the next events, in any order.
func (r *room) expect(want ...string) {
	r.Helper()
	var got []string
	for range want {
		select {
		case e := <-r.events:
			got = append(got, e)
		case <-time.After(10 * time.Second):
			r.Fatalf("got %q only, want %q", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// expectNothing more, neither an event nor a ring.
func (r *room) expectNothing() {
	r.Helper()
	select {
	case <-r.rings:
		r.Error("rang for an irrelevant change")
	case e := <-r.events:
		r.Errorf("told of an irrelevant change: %s", e)
	case <-time.After(100 * time.Millisecond):
	}
}

func (r *room) do(_ any, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *room) create(p *corev1.Pod) {
	r.Helper()
	r.do(r.kube.CoreV1().Pods("default").Create(r.Context(), p, metav1.CreateOptions{}))
}

func (r *room) delete(pod string) {
	r.Helper()
	r.do(nil, r.kube.CoreV1().Pods("default").Delete(r.Context(), pod, metav1.DeleteOptions{}))
}

func (r *room) update(s *v1.AddressSlice) {
	r.Helper()
	r.do(r.sample.SamplecrdV1().AddressSlices(s.Namespace).Update(r.Context(), s, metav1.UpdateOptions{}))
}

const (
	setNode  = "set Node {n1 [10.0.0.1]}"
	setNodes = "set nodes nodes.0 [{10.0.0.1 10.0.0.1} {10.0.0.2 10.0.0.1}]"
	setBlue  = "set blue-0 70001 [{192.168.0.3 10.0.0.2}]"
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
	if got, want := fmt.Sprint(s.Nodes, s.APIServers), "[{n1 [10.0.0.1]} { [10.0.0.1 10.0.0.2]}] [10.0.0.9:6443]"; got != want {
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
	watched := map[string]bool{}
	for _, a := range append(r.kube.Actions(), r.sample.Actions()...) {
		if w, ok := a.(clienttesting.WatchAction); ok {
			x := w.GetWatchRestrictions()
			watched[fmt.Sprintf("%s in %q with %s and %s", a.GetResource().Resource, a.GetNamespace(), x.Labels, x.Fields)] = true
		}
	}
	for _, want := range []string{`pods in "" with samplecrd.k8s.io/managed=true and spec.nodeName=n1`, `nodes in "" with  and metadata.name=n1`,
		`endpointslices in "default" with kubernetes.io/service-name=kubernetes and `,
		`addressslices in "" with samplecrd.k8s.io/nodes=true and `, `addressslices in "default" with samplecrd.k8s.io/network=blue and `} {
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

// The view has started once all lists are there, those of the Networks of its pods too. A Network without
// slices is no reason to wait.
func TestStartWaits(t *testing.T) {
	r := newRoom(t, []runtime.Object{nodeN1(), podOn("a", "blue", "gone")}, sliceOf("blue", 0, "192.168.0.3=10.0.0.2"))
	started := make(chan bool, 1)
	blocked := make(chan bool)
	r.sample.PrependReactor("list", "addressslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.(clienttesting.ListAction).GetListRestrictions().Labels.String() == v1.NetworkLabel+"=blue" {
			<-blocked
		}
		return false, nil, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { started <- r.view.start(ctx) }()
	waits := func(for_ string) {
		select {
		case <-started:
			t.Fatalf("started without %s", for_)
		case <-time.After(300 * time.Millisecond): // it looks each 100 ms
		}
	}
	waits("the slices of blue and of nodes")
	close(blocked)
	waits("a slice of nodes")
	r.do(r.sample.SamplecrdV1().AddressSlices("kube-system").Create(t.Context(), nodesSlice("10.0.0.1", "10.0.0.2"), metav1.CreateOptions{}))
	if !<-started {
		t.Error("not started")
	}
	r.expect(setNode, setNodes, setBlue, "set Pod default/a u-a [{blue 192.168.0.2 0a:58:c0:a8:00:02 16} {gone 192.168.0.2 0a:58:c0:a8:00:02 16}]")
}

// recorder of events.
type recorder chan string

func (r recorder) SetPod(p dataplane.Pod) {
	r <- fmt.Sprintf("set Pod %s/%s %s %v", p.Namespace, p.Name, p.UID, p.Attachments)
}

func (r recorder) DeletePod(namespace, name string, uid types.UID) {
	r <- fmt.Sprintf("delete Pod %s/%s %s", namespace, name, uid)
}

func (r recorder) DeleteNetwork(namespace, name string) {
	r <- fmt.Sprintf("delete Network %s/%s", namespace, name)
}

func (r recorder) SetSlice(s dataplane.Slice) {
	switch {
	case s.Network == "":
		r <- fmt.Sprintf("set nodes %s %v", s.Name, s.Locations)
	case s.Overlay != nil:
		r <- fmt.Sprintf("set %s %d %v", s.Name, s.Overlay.VNI, s.Locations)
	default:
		r <- fmt.Sprintf("set %s %v", s.Name, s.Locations)
	}
}

func (r recorder) DeleteSlice(s dataplane.Slice) { r <- "delete " + s.Name }
func (r recorder) SetNode(n dataplane.Node)      { r <- fmt.Sprint("set Node ", n) }
