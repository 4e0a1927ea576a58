//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
)

// api is the local control plane, and clients of it without limits.
type api struct {
	root, dir string
	config    *rest.Config
	kube      kubernetes.Interface
	sample    versioned.Interface
	// uids of the pods that were published, by name: what is changed or deleted is that pod.
	uids sync.Map
}

// space is the namespace of our pods.
const space = "default"

func startAPI(ctx context.Context, root, dir string) (_ *api, err error) {
	a := &api{root: root, dir: filepath.Join(dir, "api")}
	if err := a.script(ctx, []string{"NODES=2", "QPS_UNLIMITED=1"}, "hack/localcluster.sh", "up", a.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.close(ctx)
		}
	}()
	if err := a.script(ctx, nil, "bin/kubectl", "--kubeconfig="+a.kubeconfig(), "apply", "-f", "crd/"); err != nil {
		return nil, err
	}
	if err := a.script(ctx, nil, "bin/kubectl", "--kubeconfig="+a.kubeconfig(), "wait", "--for=condition=Established", "--timeout=30s", "-f", "crd/"); err != nil {
		return nil, err
	}
	if a.config, err = clientcmd.BuildConfigFromFlags("", a.kubeconfig()); err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the cluster: %w", err)
	}
	a.config.QPS = -1
	if a.sample, err = versioned.NewForConfig(a.config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	protobuf := rest.CopyConfig(a.config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf
	if a.kube, err = kubernetes.NewForConfig(protobuf); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return a, nil
}

func (a *api) kubeconfig() string { return filepath.Join(a.dir, "kubeconfig") }

// close works when ctx has ended, too.
func (a *api) close(ctx context.Context) {
	if err := a.script(context.WithoutCancel(ctx), nil, "hack/localcluster.sh", "down", a.dir); err != nil {
		fmt.Fprintf(os.Stderr, "dataplane: %v\n", err)
	}
}

// script runs a program of the checkout.
func (a *api) script(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(a.root, name), args...)
	cmd.Dir, cmd.Env = a.root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w:\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// node is a Node on which nothing is scheduled. KWOK makes it Ready, as any, and leaves it
// its address.
func (a *api) node(ctx context.Context, name string, ip netip.Addr) error {
	_, err := a.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip.String()}}},
	}, metav1.CreateOptions{})
	return err
}

// network as the controller leaves it: with its number and its gateway.
func (a *api) network(ctx context.Context, n network) error {
	networks := a.sample.SamplecrdV1().Networks(space)
	object, err := networks.Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: samplecrdv1.NetworkSpec{CIDR: n.cidr.String()},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	object.Status.VNI, object.Status.Gateway = n.vni, n.gateway.String()
	_, err = networks.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}

// publish creates a pod that has its address already and is on a node already, so that it
// counts from this one write on.
func (a *api) publish(ctx context.Context, name, node string, n network, ip netip.Addr) (*corev1.Pod, error) {
	pod, err := a.kube.CoreV1().Pods(space).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{samplecrdv1.ManagedLabel: "true", "app": "web"},
			Annotations: map[string]string{
				samplecrdv1.NetworksAnnotation: n.name,
				samplecrdv1.AddressesAnnotation: attachment.FormatAddresses(map[string]attachment.Address{n.name: {
					Address: netip.PrefixFrom(ip, n.cidr.Bits()), Gateway: n.gateway, MAC: macOf(ip).String()}}),
				"k8s.v1.cni.cncf.io/networks": fmt.Sprintf(`[{"name":%q,"namespace":%q,"interface":"net1","ips":["%s/%d"],"mac":%q}]`,
					n.name, space, ip, n.cidr.Bits(), macOf(ip)),
				// KWOK's part of a deletion is delayed, and would be done to the next pod of the name.
				"kwok.samplecrd.k8s.io/terminate": "false",
			},
		},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10"}},
		},
	}, metav1.CreateOptions{})
	if err == nil {
		a.uids.Store(name, pod.UID)
	}
	return pod, err
}

// uid of a pod that was published.
func (a *api) uid(name string) types.UID {
	uid, _ := a.uids.Load(name)
	return uid.(types.UID)
}

func (a *api) remove(ctx context.Context, name string) error {
	options := metav1.NewPreconditionDeleteOptions(string(a.uid(name)))
	options.GracePeriodSeconds = ptr.To(int64(0))
	return a.kube.CoreV1().Pods(space).Delete(ctx, name, *options)
}
