//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/bench/measure"
)

// space is the namespace of the pods.
const space = "default"

// createNode makes an unschedulable Node. KWOK makes it Ready, like any Node, and does not
// change its address.
func (b *bench) createNode(ctx context.Context, name string, ip netip.Addr) {
	measure.Must(b.Kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip.String()}}},
	}, metav1.CreateOptions{}))
}

// createNetwork in the state in which the controller leaves it: with its VNI and gateway.
func (b *bench) createNetwork(ctx context.Context, n dataplane.Network) {
	networks := b.Sample.SamplecrdV1().Networks(space)
	object := measure.Must(networks.Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: samplecrdv1.NetworkSpec{CIDR: n.CIDR.String()},
	}, metav1.CreateOptions{}))
	object.Status.VNI, object.Status.Gateway = n.VNI, n.Gateway.String()
	measure.Must(networks.UpdateStatus(ctx, object, metav1.UpdateOptions{}))
}

// publish creates a pod that already has its address and its node, so it counts from this
// one write on.
func (b *bench) publish(ctx context.Context, name, node string, n dataplane.Network, ip netip.Addr) types.UID {
	pod := measure.Must(b.Kube.CoreV1().Pods(space).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{samplecrdv1.ManagedLabel: "true", "app": "web"},
			Annotations: map[string]string{
				samplecrdv1.NetworksAnnotation: n.Name,
				samplecrdv1.AddressesAnnotation: attachment.FormatAddresses(map[string]attachment.Address{n.Name: {
					Address: netip.PrefixFrom(ip, n.CIDR.Bits()), Gateway: n.Gateway, MAC: macOf(ip).String()}}),
				"k8s.v1.cni.cncf.io/networks": fmt.Sprintf(`[{"name":%q,"namespace":%q,"interface":"net1","ips":["%s/%d"],"mac":%q}]`,
					n.Name, space, ip, n.CIDR.Bits(), macOf(ip)),
				// KWOK delays its part of a deletion, and could delete the next pod with this name.
				"kwok.samplecrd.k8s.io/terminate": "false",
			},
		},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10"}},
		},
	}, metav1.CreateOptions{}))
	b.uids.Store(name, pod.UID)
	return pod.UID
}

// uid of a published pod.
func (b *bench) uid(name string) types.UID {
	uid, _ := b.uids.Load(name)
	return uid.(types.UID)
}

// remove a published pod at once.
func (b *bench) remove(ctx context.Context, name string) {
	options := metav1.NewPreconditionDeleteOptions(string(b.uid(name)))
	options.GracePeriodSeconds = ptr.To(int64(0))
	measure.Check(b.Kube.CoreV1().Pods(space).Delete(ctx, name, *options))
}
