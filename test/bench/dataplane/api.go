//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/test/bench/measure"
)

// space is the namespace of the pods.
const space = "default"

// newNetwork as agents read it.
func newNetwork(name, cidr string) dataplane.Network {
	n := dataplane.Network{Namespace: space, Name: name, VNI: 70000, CIDR: netip.MustParsePrefix(cidr), MTU: underlayMTU - 50, Egress: true}
	n.Gateway, _ = ipam.DefaultGateway(n.CIDR)
	return n
}

func macOf(ip netip.Addr) dataplane.MAC { return measure.Must(dataplane.ParseMAC(ipam.MAC(ip))) }

// big is the Network of the pods of other nodes.
var big = newNetwork("big", "10.0.0.0/8")

// far is a node that exists only by name.
var far = struct {
	name    string
	address netip.Addr
}{"far1", netip.MustParseAddr("10.9.9.1")}

// farIP is the address of the i-th pod of another node.
func farIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 1 + byte(i>>16), byte(i >> 8), byte(i)})
}

func (b *bench) setUp(ctx context.Context) {
	for _, n := range b.lab.nodes {
		b.createNode(ctx, n.name, n.ip)
	}
	b.createNode(ctx, far.name, far.address)
	blue, v6 := newNetwork("blue", "192.168.0.0/16"), newNetwork("v6", "fd00:10::/64")
	for _, n := range []*dataplane.Network{&blue, &v6, &big} {
		b.createNetwork(ctx, n)
	}
	for _, n := range b.lab.nodes {
		b.startAgent(ctx, n)
	}
	for _, p := range []struct {
		name, ip string
		network  dataplane.Network
		node     int
	}{
		{"a", "192.168.0.2", blue, 0}, {"b", "192.168.0.3", blue, 1}, {"c", "192.168.0.4", blue, 0}, {"m", "192.168.0.5", blue, 1},
		{"a6", "fd00:10::2", v6, 0}, {"b6", "fd00:10::3", v6, 1},
		{"n3", "192.168.0.6", blue, 2}, {"big1", "10.0.0.2", big, 0}, {"big2", "10.0.0.3", big, 1}, {"big3", "10.0.0.4", big, 2},
	} {
		q := &pod{namespace: b.lab.open(p.name), network: p.network, ip: netip.MustParseAddr(p.ip)}
		b.pods[p.name] = q
		b.publish(ctx, q, b.lab.nodes[p.node])
		q.attach(ctx)
		echo(ctx, q.namespace)
	}
	echo(ctx, b.lab.bare2)
	for _, to := range []*pod{b.pods["b"], b.pods["c"], b.pods["m"], b.pods["n3"]} {
		connected(ctx, b.pods["a"].namespace, to.ip)
	}
	connected(ctx, b.pods["a"].namespace, world)
	connected(ctx, b.pods["a6"].namespace, b.pods["b6"].ip)
}

// createNode makes an unschedulable Node. KWOK makes it Ready, like any Node, and does not
// change its address.
func (b *bench) createNode(ctx context.Context, name string, ip netip.Addr) {
	measure.Must(b.Kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip.String()}}},
	}, metav1.CreateOptions{}))
}

// createNetwork returns once the controller has given it a VNI.
func (b *bench) createNetwork(ctx context.Context, n *dataplane.Network) {
	networks := b.Sample.SamplecrdV1().Networks(space)
	measure.Must(networks.Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: samplecrdv1.NetworkSpec{CIDR: n.CIDR.String()},
	}, metav1.CreateOptions{}))
	measure.Until(ctx, 10*time.Millisecond, "the VNI of a Network", func() bool {
		n.VNI = measure.Must(networks.Get(ctx, n.Name, metav1.GetOptions{})).Status.VNI
		return n.VNI != 0
	})
}

// create a pod, and wait until the controller has published its address. It has no node yet.
func (b *bench) create(ctx context.Context, name string, n dataplane.Network, ip netip.Addr) *corev1.Pod {
	pods := b.Kube.CoreV1().Pods(space)
	pod := measure.Must(pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{samplecrdv1.ManagedLabel: "true", "app": "web"},
			Annotations: map[string]string{
				samplecrdv1.NetworksAnnotation: n.Name + "=" + ip.String(),
				// KWOK delays its part of a deletion, and could delete the next pod with this name.
				"kwok.samplecrd.k8s.io/terminate": "false",
			},
		},
		Spec: corev1.PodSpec{
			// The benchmark binds the pods, not the scheduler.
			SchedulerName: "bench", AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(0)),
			SchedulingGates: []corev1.PodSchedulingGate{{Name: samplecrdv1.AddressesGate}},
			Containers:      []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10"}},
		},
	}, metav1.CreateOptions{}))
	measure.Until(ctx, 2*time.Millisecond, "the address of a pod", func() bool {
		pod = measure.Must(pods.Get(ctx, name, metav1.GetOptions{}))
		return len(pod.Spec.SchedulingGates) == 0
	})
	return pod
}

// bind a pod to a node, as the scheduler does.
func (b *bench) bind(ctx context.Context, p *corev1.Pod, node string) {
	measure.Check(b.Kube.CoreV1().Pods(space).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// publish a pod and bind it.
func (b *bench) publish(ctx context.Context, p *pod, n *node) {
	object := b.create(ctx, p.name, p.network, p.ip)
	p.node, p.uid = n, string(object.UID)
	b.bind(ctx, object, n.name)
}

// remove the object of a pod at once.
func (b *bench) remove(ctx context.Context, p *pod) {
	options := metav1.NewPreconditionDeleteOptions(p.uid)
	options.GracePeriodSeconds = ptr.To(int64(0))
	measure.Check(b.Kube.CoreV1().Pods(space).Delete(ctx, p.name, *options))
}

// attachment is the one that pod2-cni asks for.
func (p *pod) attachment() cni.Attachment {
	return cni.Attachment{ID: cni.ID{ContainerID: "sandbox-of-" + p.name, Interface: "net1"}, Network: p.network.Namespace + "." + p.network.Name,
		Pod: cni.Pod{Namespace: space, Name: p.name, UID: p.uid}}
}

// attach the pod, as the container runtime does with pod2-cni and Multus.
func (p *pod) attach(ctx context.Context) {
	ns := measure.Must(os.Open(fmt.Sprint("/proc/self/fd/", p.file.Fd())))
	defer ns.Close()
	result := measure.Must(p.node.cni().Add(ctx, p.attachment(), ns))
	p.defaultRoute("net1", result.Gateway)
}

func (p *pod) detach(ctx context.Context) { measure.Check(p.node.cni().Del(ctx, p.attachment())) }

// cleanUp ends the agents, and removes all that they made, as an administrator does on a node.
func (b *bench) cleanUp(ctx context.Context) {
	for _, n := range b.lab.nodes {
		measure.Cleanup(func() {
			n.agent.Stop()
			n.do(func() {
				out, err := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(b.root, "bin/pod2-agent"), "cleanup", "--netns-dir="+n.path("netns"), "--bpf-dir="+n.path("bpf/pod2")).CombinedOutput()
				if err != nil {
					measure.Check(fmt.Errorf("pod2-agent cleanup on %s: %w: %s", n.name, err, out))
				}
			})
		})
	}
}
