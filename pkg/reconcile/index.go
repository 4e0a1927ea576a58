package reconcile

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// Indexes. Unless noted, every value is <namespace>/<name>.
const (
	byNetwork = "network" // its AddressBlocks; pods that ask for it or publish one of its addresses; Pod2s and CronTabs on it; its VNIs
	byWaiting = "waiting" // pods that wait for one of its addresses
	byPrefix  = "prefix"  // AddressBlocks with an entry of a pod; the value is its prefixOf
	byPod2    = "pod2"    // its replicas, and pods with the label or name of one; its PVCs likewise; objects with its label
	byClass   = "class"   // PVCs of it; the value is its name
)

func networkOfBlock(b *v1.AddressBlock) []string { return []string{path(b.Namespace, b.Spec.Network)} }

func prefixesOfBlock(b *v1.AddressBlock) []string {
	prefixes := map[string]bool{}
	for i := range b.Spec.Entries {
		prefixes[prefixOf(b.Spec.Entries[i].Pod)] = true
	}
	return inNamespace(b.Namespace, slices.Collect(maps.Keys(prefixes)))
}

// prefixOf returns the name of a pod without its last character, which ten replicas share. An
// index of whole names would take 0.4 KiB for each address, and each write of an AddressBlock would
// update 256 values.
func prefixOf(pod string) string { return pod[:max(0, len(pod)-1)] }

// blocksNaming returns the AddressBlocks with an entry that names the pod, in no order.
func (s *caches) blocksNaming(namespace, pod string) []*v1.AddressBlock {
	return slices.DeleteFunc(s.blocks.by(byPrefix, path(namespace, prefixOf(pod))), func(b *v1.AddressBlock) bool {
		for i := range b.Spec.Entries { // large, so they are not copied
			if b.Spec.Entries[i].Pod == pod {
				return false
			}
		}
		return true
	})
}

func networksOfPod(pod *corev1.Pod) []string {
	var networks []string
	if requests, err := attachment.Requests(pod); err == nil {
		for _, r := range requests {
			networks = append(networks, path(pod.Namespace, r.Network))
		}
	}
	for name := range attachment.Published(pod) {
		networks = append(networks, path(pod.Namespace, name))
	}
	return networks
}

func networksWaitedFor(pod *corev1.Pod) []string {
	var networks []string
	if requests, waits := network.Wants(pod); waits {
		for _, r := range requests {
			networks = append(networks, path(pod.Namespace, r.Network))
		}
	}
	return networks
}

func pod2sOfPod(pod *corev1.Pod) []string { return inNamespace(pod.Namespace, pod2.Concerned(pod)) }

func networksOfPod2(p *v1.Pod2) []string { return inNamespace(p.Namespace, pod2.Networks(p)) }

func inNamespace(namespace string, names []string) []string {
	paths := make([]string, 0, len(names))
	for _, name := range names {
		paths = append(paths, path(namespace, name))
	}
	return paths
}

func labelledPod2[T metav1.Object](o T) []string { return labelled(o, v1.Pod2Label) }

// labelled returns the path of the object that a label names; none without the label.
func labelled(o metav1.Object, label string) []string {
	name := o.GetLabels()[label]
	if name == "" {
		return nil
	}
	return []string{path(o.GetNamespace(), name)}
}

// pod2sOfClaim returns the Pod2 in the label and every Pod2 whose PVC could have the
// name. For example, data-a-b-0 may belong to a Pod2 b with the template data-a, or to a
// Pod2 a-b.
func pod2sOfClaim(claim *corev1.PersistentVolumeClaim) []string {
	pod2s := labelledPod2(claim)
	if end := strings.LastIndexByte(claim.Name, '-'); end > 0 {
		for rest := claim.Name[:end]; ; {
			_, name, more := strings.Cut(rest, "-")
			if !more {
				break
			}
			pod2s = append(pod2s, path(claim.Namespace, name))
			rest = name
		}
	}
	slices.Sort(pod2s)
	return slices.Compact(pod2s)
}

func classOfClaim(claim *corev1.PersistentVolumeClaim) []string {
	return []string{ptr.Deref(claim.Spec.StorageClassName, "")}
}
