package spec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Write is a request that would change an object.
type Write struct {
	Verb                        string // create, update, patch or delete
	Resource, Subresource, Name string
	// UID and ResourceVersion are the preconditions of the write, "" for none.
	UID, ResourceVersion string
}

func (w Write) String() string {
	text := w.Verb + " " + w.Resource + " " + w.Name
	if w.Subresource != "" {
		text += " " + w.Subresource
	}
	return text
}

// Unconditional is S7: a create has a name, a patch and a deletion have UID and
// resourceVersion, and no object is updated as a whole. The status of a pod may be patched
// by UID alone: other writes do not make a condition wrong.
func (w Write) Unconditional() string {
	switch {
	case w.Verb == "create" && w.Name == "":
		return fmt.Sprintf("S7: %s has no name", w)
	case w.Verb == "update":
		return fmt.Sprintf("S7: %s removes the fields that the controller does not know", w)
	case (w.Verb == "patch" || w.Verb == "delete") && w.UID == "":
		return fmt.Sprintf("S7: %s has no UID", w)
	case w.Verb != "create" && w.ResourceVersion == "" && (w.Resource != "pods" || w.Subresource != "status"):
		return fmt.Sprintf("S7: %s has no resourceVersion", w)
	}
	return ""
}

// NotOurs is S6. A pod may be deleted only if a Pod2 of this controller controls it, by
// UID. A pod may be changed in five cases: such a Pod2 controls it, it has no controller,
// it waits for Pod2, it has Sidecars, or it requested addresses and the write reports them
// in its status.
func (w Write) NotOurs(pod *corev1.Pod, ours func(types.UID) bool) string {
	ref := metav1.GetControllerOfNoCopy(pod)
	waits := slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1.AddressesGate })
	_, injected := pod.Annotations[v1.SidecarsAnnotation]
	told := w.Subresource == "status" && pod.Annotations[v1.NetworksAnnotation] != ""
	switch {
	case ref != nil && ours(ref.UID):
		return ""
	case w.Verb == "patch" && (ref == nil || waits || injected || told):
		return ""
	}
	return fmt.Sprintf("S6: %s: no Pod2 of this controller controls the pod", w)
}

// ClaimInUse is S6 of PVCs: no PVC that a pod uses is deleted.
func (w Write) ClaimInUse(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) string {
	for _, pod := range pods {
		uses := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		})
		if w.Verb == "delete" && uses && pod.Namespace == claim.Namespace {
			return fmt.Sprintf("S6: %s: pod %s uses the PVC", w, pod.Name)
		}
	}
	return ""
}
