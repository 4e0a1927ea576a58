package reconcile

import (
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// Indexes; every value is <namespace>/<name>, if nothing else is said.
const (
	byNetwork = "network" // blocks of it; pods that ask for it or publish an address of it; Pod2s on it
	byWaiting = "waiting" // pods that wait for an address of it
	byPod     = "pod"     // blocks with an entry of it
	byPod2    = "pod2"    // pods that are replicas of it, claim to be, or have the name of one; its revisions and claims likewise
	byClass   = "class"   // claims of it, by its name alone
	byNode    = "node"    // agents on it, by its name alone
	byWire    = "wire"    // Networks of type CNI on it, by its text
)

func path(namespace, name string) string { return namespace + "/" + name }

func blockNetwork(obj any) ([]string, error) {
	block, ok := obj.(*v1.AddressBlock)
	if !ok {
		return nil, nil
	}
	return []string{path(block.Namespace, block.Spec.Network)}, nil
}

func blockPods(obj any) ([]string, error) {
	block, ok := obj.(*v1.AddressBlock)
	if !ok {
		return nil, nil
	}
	pods := make([]string, 0, len(block.Spec.Entries))
	for _, e := range block.Spec.Entries {
		pods = append(pods, path(block.Namespace, e.Pod))
	}
	return pods, nil
}

func podNetworks(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var networks []string
	if requests, err := attachment.Requests(pod); err == nil {
		for _, r := range requests {
			networks = append(networks, path(pod.Namespace, r.Network))
		}
	}
	for name := range attachment.Published(pod) {
		networks = append(networks, path(pod.Namespace, name))
	}
	return networks, nil
}

func waitingNetworks(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var networks []string
	if requests, waits := network.Wants(pod); waits {
		for _, r := range requests {
			networks = append(networks, path(pod.Namespace, r.Network))
		}
	}
	return networks, nil
}

func podPod2s(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var pod2s []string
	for _, name := range pod2.Concerned(pod) {
		pod2s = append(pod2s, path(pod.Namespace, name))
	}
	return pod2s, nil
}

func pod2Networks(obj any) ([]string, error) {
	p, ok := obj.(*v1.Pod2)
	if !ok {
		return nil, nil
	}
	var networks []string
	for _, name := range pod2.Networks(p) {
		networks = append(networks, path(p.Namespace, name))
	}
	return networks, nil
}
