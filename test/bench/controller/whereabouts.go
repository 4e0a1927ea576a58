package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pod2/pod2/test/bench/measure"
)

const (
	whereaboutsNamespace = "kube-system" // of its manifests
	whereaboutsRange     = "10.200.0.0/16"
	// nodeSlice is the size of a node's part of the range. A node has 110 pods.
	nodeSlice = "/24"
)

// whereaboutsRight is for API servers with the plugin OwnerReferencesPermissionEnforcement, as here.
const whereaboutsRight = `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: whereabouts-owners}
rules: [{apiGroups: [k8s.cni.cncf.io], resources: [network-attachment-definitions/finalizers], verbs: [update]}]
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: whereabouts-owners}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: whereabouts-owners}
subjects: [{kind: ServiceAccount, name: whereabouts, namespace: kube-system}]
`

func (b *bench) installWhereabouts(ctx context.Context) {
	b.Kubectl(ctx, "apply", "-f", "hack/localcluster/network-attachment-definitions.yaml")
	b.Install(ctx, append(b.peer("whereabouts").read("doc/crds/daemonset-install.yaml", "doc/crds/whereabouts.cni.cncf.io_ippools.yaml",
		"doc/crds/whereabouts.cni.cncf.io_nodeslicepools.yaml", "doc/crds/whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml"),
		whereaboutsRight...), notOnNodes...)
}

// whereabouts is configured as its README and install-cni.sh do: a flat file has the
// kubeconfig, and the pool is in Kubernetes. Fast IPAM gives each node a slice.
func whereabouts(fast bool) allocator {
	a := allocator{name: "whereabouts", users: []string{measure.ServiceAccountUser(whereaboutsNamespace, "whereabouts")}}
	if fast {
		a.name = "whereabouts, fast IPAM"
	}
	a.begin = func(ctx context.Context, b *bench, ns string) (cni, func()) {
		kubeconfig := b.ServiceAccountKubeconfig(ctx, whereaboutsNamespace, "whereabouts")
		dir := filepath.Join(b.Dir, "whereabouts.d")
		measure.Check(os.MkdirAll(dir, 0o700))
		file := filepath.Join(dir, "whereabouts.conf")
		measure.Check(os.WriteFile(file, measure.Must(json.Marshal(map[string]any{"datastore": "kubernetes", "configuration_path": dir,
			"kubernetes": map[string]any{"kubeconfig": kubeconfig}, "reconciler_cron_expression": "30 4 * * *"})), 0o600))
		ipam := map[string]any{"type": "whereabouts", "range": whereaboutsRange, "configuration_path": file}
		// The name of the network makes a pool of its own for each lap.
		ipam["network_name"] = ns
		plugin := cni{program: b.program("whereabouts"), config: map[string]any{"cniVersion": "1.0.0", "name": ns, "type": "macvlan", "ipam": ipam},
			env: func(pod *corev1.Pod) []string { return []string{"NODENAME=" + pod.Spec.NodeName} }}
		end := func() {
			measure.Cleanup(func() { // faster than DEL for each pod
				b.Kubectl(context.WithoutCancel(ctx), "delete", "--all", "--namespace="+whereaboutsNamespace, "ippools.whereabouts.cni.cncf.io,overlappingrangeipreservations")
			})
		}
		if !fast {
			return plugin, end
		}
		ipam["node_slice_size"] = nodeSlice
		stop := b.startNodeSlices(ctx, ns, kubeconfig, plugin.config)
		return plugin, func() { stop(); end() }
	}
	return a
}

// startNodeSlices starts the controller that fast IPAM needs, and waits for the slices.
func (b *bench) startNodeSlices(ctx context.Context, network, kubeconfig string, config map[string]any) (stop func()) {
	definitions := b.workloads.Resource(schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}).
		Namespace(whereaboutsNamespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": map[string]any{"name": network}, "spec": map[string]any{"config": string(measure.Must(json.Marshal(config)))},
	}}
	measure.Must(definitions.Create(ctx, object, metav1.CreateOptions{}))
	cmd := exec.CommandContext(context.WithoutCancel(ctx), b.program("node-slice-controller"), "--kubeconfig="+kubeconfig)
	cmd.Env = append(os.Environ(), "WHEREABOUTS_NAMESPACE="+whereaboutsNamespace)
	controller := measure.Start(cmd, filepath.Join(b.Dir, "node-slice-controller.log"))
	stop = func() {
		measure.Cleanup(func() {
			measure.Check(definitions.Delete(context.WithoutCancel(ctx), network, metav1.DeleteOptions{}))
		})
		controller.Stop()
	}
	pools := b.workloads.Resource(schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Resource: "nodeslicepools"}).
		Namespace(whereaboutsNamespace)
	err := measure.Try(func() {
		measure.Until(ctx, 100*time.Millisecond, "a slice of each node", func() bool {
			pool, err := pools.Get(ctx, network, metav1.GetOptions{})
			return err == nil && strings.Count(string(measure.Must(json.Marshal(pool.Object["status"]))), "nodeName") >= b.Nodes()
		})
	})
	if err != nil {
		stop()
	}
	measure.Check(err)
	return stop
}
