//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"

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
	setNode  = "set Node [10.0.0.1]"
	setNodes = "set nodes nodes.0 [{10.0.0.1 10.0.0.1} {10.0.0.2 10.0.0.1}]"
	setBlue  = "set blue-0 70001 [{192.168.0.3 10.0.0.2}]"
)

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
func (r recorder) SetNode(self []netip.Addr)     { r <- fmt.Sprint("set Node ", self) }
