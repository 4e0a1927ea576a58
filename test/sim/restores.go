package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

// backup is the name of the writer that restores objects.
const backup = "backup"

// Restore deletes all pods, AddressBlocks, revisions, Networks and Pod2s. Then it restores
// some kinds from a backup, one kind after the other. The restored objects have new UIDs,
// and no owner references, finalizers or status. Admission gates the pods. Afterwards every
// pod must be live with its earlier address, or every replica if pods are not restored.
// This is not checked if a user recreated a Network or a Pod2 meanwhile.
func (w *World) Restore(kinds ...string) {
	before, restored := w.restoreAll(kinds)
	time.Sleep(Settle)
	w.Lock()
	defer w.Unlock()
	if is := w.addresses(); w.Thaw == nil && slices.Equal(restored, w.identities()) && !maps.Equal(is, before) {
		w.fault(fmt.Sprintf("S3: before the restore the pods had %v, and now they have %v", before, is))
	}
}

func (w *World) restoreAll(kinds []string) (before map[string]string, restored []types.UID) {
	w.Lock()
	defer w.Unlock()
	w.Server.Note("user: lose and restore %s", strings.Join(kinds, ", "))
	before = w.addresses()
	saved := map[string][]apiserver.Object{}
	if !slices.Contains(kinds, "pods") {
		for _, pod := range apiserver.List[*corev1.Pod](w.Server, "pods") {
			if metav1.GetControllerOf(pod) == nil {
				delete(before, pod.Name)
			}
		}
	}
	lost := []string{"pods", "controllerrevisions", "pod2s", "addressblocks", "networks"}
	for _, kind := range lost {
		for _, v := range w.All(apiserver.ResourceNamed(kind), apiserver.Namespace) {
			saved[kind] = append(saved[kind], v.Object)
		}
	}
	for _, kind := range lost {
		for _, object := range saved[kind] {
			w.Remove(backup, apiserver.ResourceNamed(kind), object)
		}
	}
	for _, kind := range kinds {
		for _, object := range saved[kind] {
			if _, err := w.Server.Create(backup, apiserver.ResourceNamed(kind), apiserver.Namespace, fromBackup(object)); err != nil {
				panic(fmt.Sprintf("sim: restore %s %s: %v", kind, object.GetName(), err))
			}
		}
	}
	return before, w.identities()
}

// identities returns the UIDs of all Networks and Pod2s.
func (w *World) identities() (uids []types.UID) {
	for _, kind := range []string{"networks", "pod2s"} {
		for _, v := range w.All(apiserver.ResourceNamed(kind), apiserver.Namespace) {
			uids = append(uids, v.Object.GetUID())
		}
	}
	return uids
}

// addresses returns the addresses that live pods publish, by pod name.
func (w *World) addresses() map[string]string {
	all := map[string]string{}
	for _, pod := range apiserver.List[*corev1.Pod](w.Server, "pods") {
		if spec.Live(pod) && len(published(pod)) > 0 {
			all[pod.Name] = fmt.Sprint(published(pod))
		}
	}
	return all
}

func fromBackup(object apiserver.Object) apiserver.Object {
	object = object.DeepCopyObject().(apiserver.Object)
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetCreationTimestamp(metav1.Time{})
	object.SetOwnerReferences(nil)
	object.SetFinalizers(nil)
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{}
		gated := func(g corev1.PodSchedulingGate) bool { return g.Name == v1.AddressesGate }
		if pod.Annotations[v1.AddressesAnnotation] != "" && !slices.ContainsFunc(pod.Spec.SchedulingGates, gated) {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1.AddressesGate})
		}
	}
	return object
}
