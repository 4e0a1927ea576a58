package dataplane

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Reports, and the destinations of packets to pods of other nodes.
func TestReports(t *testing.T) {
	nodes := []string{"node n1 10.0.0.1", "node n2 10.0.0.2"}
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"nothing of this node", append(nodes, "network blue 1001 192.168.0.0/16", "pod b n2 blue=192.168.0.3"), `0 networks, 0 pods`},
		{"a node without an address", []string{"node n2 10.0.0.2"}, `
			0 networks, 0 pods
			node n1: the Node has no address that other nodes can send to; the data plane stays unchanged`},
		{"two pods that have one address: the newer has it", append(nodes, "network blue 1001 192.168.0.0/16", "pod a n1 blue=192.168.0.2",
			"pod old n2 blue=192.168.0.3 created=5", "pod new n2 blue=192.168.0.3 created=6 mac=02:00:00:00:00:06"), `
			1 networks, 2 pods
			bridge fdb replace 02:00:00:00:00:06 dev vx1001 dst 10.0.0.2 self static
			Network default/blue: pods old and new both have address 192.168.0.3; the newer pod, new, receives its packets`},
		{"the same on a Network that is on other nodes: those report it", append(nodes, "network blue 1001 192.168.0.0/16", "network green 1002 192.168.0.0/16",
			"pod a n1 blue=192.168.0.2", "pod old n2 green=192.168.0.3", "pod new n2 green=192.168.0.3"), `1 networks, 1 pods`},
		{"two of one age: the higher UID", append(nodes, "network blue 1001 192.168.0.0/16", "pod a n1 blue=192.168.0.2",
			"pod y n2 blue=192.168.0.3 mac=02:00:00:00:00:06", "pod x n2 blue=192.168.0.3"), `
			1 networks, 2 pods
			bridge fdb replace 02:00:00:00:00:06 dev vx1001 dst 10.0.0.2 self static
			Network default/blue: pods x and y both have address 192.168.0.3; the newer pod, y, receives its packets`},
		{"two pods that have one MAC address", append(nodes, "network v6 1001 fd00::/32", "pod a n1 v6=fd00::5",
			"pod x n2 v6=fd00::1:0:0:3", "pod y n2 v6=fd00::3"), `
			1 networks, 2 pods
			bridge fdb replace 0a:58:00:00:00:03 dev vx1001 dst 10.0.0.2 self static
			Network default/v6: pods x and y both have MAC address 0a:58:00:00:00:03; the newer pod, y, receives its packets`},
		{"a pod of an earlier Network, one that claims the gateway, one of another namespace", append(nodes, "network blue 1001 192.168.0.0/16", "pod a n1 blue=192.168.0.2",
			"pod b n2 blue=10.0.0.3", "pod c n2 blue=192.168.0.1", "pod d n2 blue=192.168.0.4 ns=other"), `1 networks, 1 pods`},
		{"a pod of a node without an address of this node's family", append(nodes, "node n3 fd0a::3", "network blue 1001 192.168.0.0/16", "pod a n1 blue=192.168.0.2", "pod b n3 blue=192.168.0.3", "pod c n3 blue=192.168.0.4"), `
			1 networks, 3 pods
			node n3: the Node has no address of the same family as 10.0.0.1, which this node sends VXLAN from; its pods are unreachable`},
		{"a pod of a node that is gone", append(nodes, "network blue 1001 192.168.0.0/16", "pod a n1 blue=192.168.0.2", "pod b n3 blue=192.168.0.3"), `1 networks, 2 pods`},
		{"two Networks of one number", append(nodes, "network blue 1001 192.168.0.0/16", "network alt 1001 192.168.0.0/16", "pod a n1 blue=192.168.0.2", "pod c n1 alt=192.168.0.2"), `
			1 networks, 1 pods
			Networks default/alt and default/blue both have VNI 1001; only the first is served`},
		{"ports of no pod, of two pods, and of a pod that is not on this Network", append(nodes, "network blue 1001 192.168.0.0/16",
			"pod a n1 blue=192.168.0.2", "pod c n1 blue=192.168.0.4", "pod d n1 green=192.168.0.4", "cni veth2 a", "cni veth2 c", "cni veth3 d", "cni veth4 gone"), `
			1 networks, 2 pods
			interface veth2: CNI recorded it for two live pods (UIDs u-a and u-c); all its packets are dropped
			stranger veth1
			stranger veth2
			stranger veth3
			stranger veth4`},
		{"a pod that CNI made a port for once more: the newest", append(nodes, "network blue 1001 192.168.0.0/16", "pod a n1 blue=192.168.0.2",
			"cni veth1 a", "cni veth2 a made=5", "cni veth2 a made=3", "cni veth3 a made=5", "cni veth4 a made=4"), `
			1 networks, 1 pods
			stranger veth1
			stranger veth2
			stranger veth4`},
		{"a Network that has no gateway has no router", append(nodes, "network one 1001 192.168.0.2/32", "pod a n1 one=192.168.0.2"), `1 networks, 1 pods`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, tt.lines...)
			if strings.Contains(tt.want, "stranger") || len(s.Ports) > 0 {
				for i := range 4 {
					s.Host = plug(s.Host, fmt.Sprintf("veth%d", i+1), 1001)
				}
			}
			p, r := decide(t, s)
			var b strings.Builder
			fmt.Fprintf(&b, "%d networks, %d pods\n", r.Networks, r.Pods)
			for _, step := range p {
				if text := step.String(); strings.Contains(text, "self static") {
					fmt.Fprintln(&b, text)
				}
			}
			for _, problem := range r.Problems {
				fmt.Fprintln(&b, problem)
			}
			for _, name := range r.Strangers {
				fmt.Fprintln(&b, "stranger", name)
			}
			expect(t, b.String(), strings.ReplaceAll(tt.want, "\n\t\t\t", "\n\t\t"))
			settle(t, &s)
		})
	}
}

// Two Networks with one CIDR share nothing except the node.
func TestTwoNetworksOfOneCIDR(t *testing.T) {
	s := state(t, "node n1 10.0.0.1", "node n2 10.0.0.2",
		"network blue 1001 192.168.0.0/16", "network green 1002 192.168.0.0/16",
		"pod a n1 blue=192.168.0.2", "pod b n2 blue=192.168.0.3", "pod c n1 green=192.168.0.2", "pod d n2 green=192.168.0.3")
	settle(t, &s)
	var b strings.Builder
	for _, ns := range s.Host {
		for _, f := range ns.FDB {
			fmt.Fprintln(&b, ReplaceFDB{f})
		}
		for _, n := range ns.Neighbours {
			fmt.Fprintln(&b, ReplaceNeighbour{n})
		}
		for _, a := range ns.Addresses {
			fmt.Fprintln(&b, Step{0, ns.Name, AddAddress{a}})
		}
	}
	expect(t, b.String(), `
		bridge fdb replace 02:00:5e:00:03:e9 dev rt1001 master static sticky
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 dst 10.0.0.2 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1001 master static sticky
		bridge fdb replace 02:00:5e:00:03:ea dev rt1002 master static sticky
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1002 dst 10.0.0.2 self static
		bridge fdb replace 0a:58:c0:a8:00:03 dev vx1002 master static sticky
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1001 nud permanent
		ip neigh replace 192.168.0.3 lladdr 0a:58:c0:a8:00:03 dev nw1002 nud permanent
		ip addr add 100.64.0.0/31 dev wn1001
		ip addr add 100.64.0.2/31 dev wn1002
		ip -n pod2-1001 addr add 192.168.0.1/16 dev lan
		ip -n pod2-1001 addr add 100.64.0.1/31 dev wan
		ip -n pod2-1002 addr add 192.168.0.1/16 dev lan
		ip -n pod2-1002 addr add 100.64.0.3/31 dev wan`)
}

func TestTransitRunsOut(t *testing.T) {
	s := state(t, "node n1 10.0.0.1", "network a 1 192.168.0.0/16", "network b 2 192.168.0.0/16", "network c 3 192.168.0.0/16",
		"pod a n1 a=192.168.0.2", "pod b n1 b=192.168.0.2", "pod c n1 c=192.168.0.2")
	s.Transit = netip.MustParsePrefix("100.64.0.0/30")
	_, r := decide(t, s)
	expect(t, strings.Join(r.Problems, "\n"), "Network default/c: the range 100.64.0.0/30 has no free /31 for its gateway; its packets cannot leave the Network")
	settle(t, &s)
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

func TestNetworkOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1.Network)
		want   string
	}{
		{"by default", func(*v1.Network) {}, "{default blue 1001 192.168.0.0/16 192.168.0.1 1450 true}"},
		{"no egress, an MTU", func(n *v1.Network) { n.Spec.Egress, n.Spec.MTU = v1.EgressNone, ptr.To[int32](1400) }, "{default blue 1001 192.168.0.0/16 192.168.0.1 1400 false}"},
		{"CNI", func(n *v1.Network) { n.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI} }, ""},
		{"no number yet", func(n *v1.Network) { n.Status.VNI = 0 }, ""},
		{"no gateway yet", func(n *v1.Network) { n.Status.Gateway = "" }, ""},
		{"one address", func(n *v1.Network) { n.Spec.CIDR, n.Status.Gateway = "192.168.0.2/32", "" }, "{default blue 1001 192.168.0.2/32 invalid IP 1450 true}"},
		{"no CIDR", func(n *v1.Network) { n.Spec.CIDR = "x" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"}, Spec: v1.NetworkSpec{CIDR: "192.168.0.0/16"}, Status: v1.NetworkStatus{VNI: 1001, Gateway: "192.168.0.1"}}
			tt.change(n)
			got := ""
			if network, ok := NetworkOf(n, 1500); ok {
				got = fmt.Sprint(network)
			}
			expect(t, got, tt.want)
		})
	}
}

func TestNodeOf(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
		{Type: corev1.NodeExternalIP, Address: "2001:db8::1"}, {Type: corev1.NodeInternalIP, Address: "fd0a::1"}, {Type: corev1.NodeInternalIP, Address: "::ffff:10.0.0.1"},
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
	expect(t, fmt.Sprint(NodeOf(n)), "{n1 [10.0.0.1 fd0a::1 203.0.113.1 2001:db8::1]}")
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"nw1001": "1001 1001 0", "vx1": "1 0 0", "rt16777215": "16777215 0 0", "wn5": "5 0 0", "pod2-5": "0 0 5",
		"nw": "0 0 0", "nw0": "0 0 0", "nw01": "0 0 0", "nw16777216": "0 0 0", "nw-1": "0 0 0", "nw+1": "0 0 0", "eth0": "0 0 0", "pod2-": "0 0 0", "vxlan100": "0 0 0", "": "0 0 0",
	} {
		if got := fmt.Sprint(OwnLink(name), OwnBridge(name), OwnNamespace(name)); got != want {
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
