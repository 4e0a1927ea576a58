package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

func TestNodeWithoutAddress(t *testing.T) {
	_, err := Want(state(t, "node n2 10.0.0.2"))
	expect(t, fmt.Sprint(err), "node n1: the Node has no address that other nodes can send to; the data plane stays unchanged")
}

// The node forwards packets of the families that may leave.
func TestTransits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a Network without a gateway", []string{"network one 1001 192.168.0.2/32"}, "[]"},
		{"a Network without egress", []string{"network blue 1001 192.168.0.0/16 none"}, "[]"},
		{"two IPv4 Networks", []string{"network blue 1001 192.168.0.0/16", "network green 1002 192.168.0.0/16"}, "[100.64.0.0/16]"},
		{"an IPv6 Network", []string{"network blue 1001 fd00::/64"}, "[fd64:706f:6432::/96]"},
		{"both", []string{"network blue 1001 fd00::/64", "network green 1002 192.168.0.0/16"}, "[100.64.0.0/16 fd64:706f:6432::/96]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, err := Want(state(t, append(tt.lines, "node n1 10.0.0.1")...))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, fmt.Sprint(want.Transits), tt.want)
		})
	}
}

func TestPodOf(t *testing.T) {
	told := map[string]string{v1.AddressesAnnotation: `{"blue":{"address":"192.168.0.2/16","gateway":"192.168.0.1","mac":"0a:58:c0:a8:00:02"},"x":{"address":"10.0.0.1/8","mac":"damaged"}}`}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"runs", func(*corev1.Pod) {}, "default/a u-a n1 5 [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]"},
		{"terminates", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }, "default/a u-a n1 5 [{blue 192.168.0.2 0a:58:c0:a8:00:02 16}]"},
		{"succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, ""},
		{"failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, ""},
		{"gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}} }, ""},
		{"not scheduled", func(p *corev1.Pod) { p.Spec.NodeName = "" }, ""},
		{"has no addresses", func(p *corev1.Pod) { p.Annotations = nil }, ""},
		{"has addresses that do not parse", func(p *corev1.Pod) { p.Annotations = map[string]string{v1.AddressesAnnotation: "{"} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u-a", Annotations: told, CreationTimestamp: metav1.NewTime(time.Unix(5, 0))}, Spec: corev1.PodSpec{NodeName: "n1"}}
			tt.change(pod)
			got := ""
			if p, ok := PodOf(pod); ok {
				got = fmt.Sprintf("%s/%s %s %s %d %v", p.Namespace, p.Name, p.UID, p.Node, p.Created.Unix(), p.Attachments)
			}
			expect(t, got, tt.want)
		})
	}
}

// The properties of a Network in an AddressSlice; "" if they are incomplete.
func TestSliceOfANetwork(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1.OverlayProperties)
		want   string
	}{
		{"by default", func(*v1.OverlayProperties) {}, "{default blue 70001 192.168.0.0/16 192.168.0.1 1450 true}"},
		{"no egress, an MTU", func(o *v1.OverlayProperties) { o.Egress, o.MTU = v1.EgressNone, ptr.To[int32](1400) }, "{default blue 70001 192.168.0.0/16 192.168.0.1 1400 false}"},
		{"a VNI that the filter lets pass", func(o *v1.OverlayProperties) { o.VNI = 65535 }, ""},
		{"a VNI that VXLAN cannot carry", func(o *v1.OverlayProperties) { o.VNI = 1 << 24 }, ""},
		{"no gateway", func(o *v1.OverlayProperties) { o.Gateway = "" }, ""},
		{"a gateway outside", func(o *v1.OverlayProperties) { o.Gateway = "10.0.0.1" }, ""},
		{"one address", func(o *v1.OverlayProperties) { o.CIDR, o.Gateway = "192.168.0.2/32", "" }, "{default blue 70001 192.168.0.2/32 invalid IP 1450 true}"},
		{"no CIDR", func(o *v1.OverlayProperties) { o.CIDR = "x" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-0", Labels: map[string]string{v1.NetworkLabel: "blue"}}}
			s.Spec.Overlay = &v1.OverlayProperties{VNI: 70001, CIDR: "192.168.0.0/16", Gateway: "192.168.0.1", Egress: v1.EgressNAT}
			tt.change(s.Spec.Overlay)
			got := ""
			if o := SliceOf(s, 1500).Overlay; o != nil {
				got = fmt.Sprint(*o)
			}
			expect(t, got, tt.want)
		})
	}
}

// Addresses count in their usual form only, and are in the order of their MAC addresses.
func TestSliceOf(t *testing.T) {
	s := &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-1", Labels: map[string]string{v1.NetworkLabel: "blue"},
		OwnerReferences: []metav1.OwnerReference{{UID: "u-other"}, {UID: "u-blue", Controller: ptr.To(true)}}}}
	s.Spec.Locations = map[string]string{"10.0.0.9": "10.0.0.1", "fd00::1:0:3": "fd0a::1", "fd00::3": "10.0.0.2", "10.0.0.02": "10.0.0.1", "::ffff:10.0.0.3": "10.0.0.1",
		"FD00::4": "10.0.0.1", "fe80::1%eth0": "10.0.0.1", "10.0.0.4": "", "10.0.0.5": "n1", "": "10.0.0.1"}
	expect(t, fmt.Sprint(SliceOf(s, 1500)), "{default blue blue-1 u-blue <nil> [{fd00::3 10.0.0.2} {fd00::1:0:3 fd0a::1} {10.0.0.9 10.0.0.1}]}")
	s.Labels[v1.NodesLabel], s.Spec.Locations, s.Spec.Overlay = "true", nil, &v1.OverlayProperties{VNI: 70001, CIDR: "192.168.0.2/32"}
	expect(t, fmt.Sprint(SliceOf(s, 1500)), "{default  blue-1 u-blue <nil> []}")
}

func TestMACOf(t *testing.T) {
	for _, ip := range []string{"192.168.0.2", "fd00::1:2:3"} {
		expect(t, MACOf(netip.MustParseAddr(ip)).String(), ipam.MAC(netip.MustParseAddr(ip)))
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"nw65536": "true true false", "vx70001": "true false false", "rt16777215": "true false false", "wn65537": "true false false", "pod2-65536": "false false true",
		"nw": "", "nw1": "", "nw65535": "", "vx100": "", "rt1": "", "wn5": "", "pod2-7": "", "nw070001": "", "nw16777216": "", "nw-70001": "", "nw+70001": "", "eth0": "", "pod2-": "", "vxlan100": "", "pod2gw": "", "": "",
	} {
		if got := fmt.Sprint(IsLeftover(name), IsBridge(name), IsRouter(name)); got != cmp.Or(want, "false false false") {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestParseMAC(t *testing.T) {
	for in, want := range map[string]string{
		"0a:58:c0:a8:00:02": "0a:58:c0:a8:00:02", "0A:58:C0:A8:00:FF": "0a:58:c0:a8:00:ff",
		"": "", "0a:58:c0:a8:00": "", "0a:58:c0:a8:00:0g": "", "0a-58-c0-a8-00-02": "", "0a:58:c0:a8:00:022": "",
	} {
		got := ""
		if m, err := ParseMAC(in); err == nil {
			got = m.String()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
