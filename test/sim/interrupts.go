package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/apiserver"
)

// Interrupt is an action of users while a write of the program is held. In the end the
// specs are the same as before, so the scenario must end as if nothing had happened.
type Interrupt struct {
	Name string
	do   func(*World)
}

// Do performs the interrupt.
func (i Interrupt) Do(w *World) {
	w.Lock()
	w.interrupted = true
	w.Unlock()
	i.do(w)
}

// Interrupts change objects that exist, and ignore others.
var Interrupts = []Interrupt{
	{"three edits", func(w *World) {
		if spec := w.spec("pod2s", "web"); spec != nil {
			w.Patch("pod2s", "web", scale(4))
			w.Patch("pod2s", "web", image("other"))
			w.Patch("pod2s", "web", string(apiserver.MustJSON(map[string]any{"spec": spec})))
		}
		if spec := w.spec("networks", "blue"); spec != nil {
			w.Patch("networks", "blue", `{"spec":{"exclude":["10.0.0.2-10.0.0.250"],"reuseDelaySeconds":7}}`)
			patch := map[string]any{"exclude": nil}
			for name, value := range spec {
				patch[name] = value
			}
			w.Patch("networks", "blue", string(apiserver.MustJSON(map[string]any{"spec": patch})))
		}
	}},
	{"the Pod2 or CronTab recreated", func(w *World) {
		w.Recreate("pod2s", "web", metav1.DeletePropagationBackground)
		w.Recreate("crontabs", "report", metav1.DeletePropagationBackground)
	}},
	{"all recreated", func(w *World) {
		w.Recreate("pod2s", "web", metav1.DeletePropagationBackground)
		w.Recreate("crontabs", "report", metav1.DeletePropagationBackground)
		if !w.hasPodOfNobody() { // such a pod would hold the Network
			w.Recreate("networks", "blue", metav1.DeletePropagationBackground)
		}
	}},
	{"a pod deleted", func(w *World) { w.Delete("pods", "web-0", "") }},
	{"labels removed and restored", func(w *World) {
		label := func(resource, name, label, value string) {
			if w.spec(resource, name) != nil {
				w.Patch(resource, name, `{"metadata":{"labels":{"samplecrd.k8s.io/`+label+`":`+value+`}}}`)
			}
		}
		label("pods", "web-0", "managed", "null")
		label("pods", "bare", "managed", "null")
		label("persistentvolumeclaims", "data-web-0", "pod2", "null")
		time.Sleep(3 * time.Second) // longer than the reuse delay
		label("pods", "web-0", "managed", `"true"`)
		label("pods", "bare", "managed", `"true"`)
		label("persistentvolumeclaims", "data-web-0", "pod2", `"web"`)
	}},
	{"owner references of running pods removed and restored", func(w *World) {
		for _, name := range []string{"web-0", "web-1", "web-2"} {
			owners := w.owners(name)
			if len(owners) == 0 || w.spec("pods", name)["nodeName"] == nil {
				continue
			}
			w.Patch("pods", name, `{"metadata":{"ownerReferences":null}}`)
			w.running.Go(func() {
				time.Sleep(10 * time.Second) // until the held write has arrived
				if w.spec("pods", name) != nil && len(w.owners(name)) == 0 {
					w.Patch("pods", name, string(apiserver.MustJSON(map[string]any{"metadata": map[string]any{"ownerReferences": owners}})))
				}
			})
		}
	}},
	{"a pod deleted without grace period", func(w *World) { w.Destroy("pods", "web-0") }},
}

// spec returns the spec of an object, nil if it does not exist or is being deleted.
func (w *World) spec(resource, name string) map[string]any {
	w.Lock()
	defer w.Unlock()
	v := w.Objects()[apiserver.KeyOf(resource, apiserver.Namespace, name)]
	if v == nil || v.Object.GetDeletionTimestamp() != nil {
		return nil
	}
	return decodeJSON(v.JSON()).(map[string]any)["spec"].(map[string]any)
}

func (w *World) hasPodOfNobody() bool {
	w.Lock()
	defer w.Unlock()
	return slices.ContainsFunc(apiserver.List[*corev1.Pod](w.Server, "pods"), func(pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil })
}

func (w *World) owners(pod string) []metav1.OwnerReference {
	w.Lock()
	defer w.Unlock()
	if v := w.Objects()[apiserver.KeyOf("pods", apiserver.Namespace, pod)]; v != nil {
		return v.Object.GetOwnerReferences()
	}
	return nil
}

// Recreate deletes an object, waits until it is gone, and creates it again with the same spec.
func (w *World) Recreate(resource, name string, policy metav1.DeletionPropagation) {
	spec := w.spec(resource, name)
	if spec == nil {
		return
	}
	r := apiserver.ResourceNamed(resource)
	w.Lock()
	finalizers := w.Get(r, apiserver.Namespace, name).GetFinalizers()
	w.Unlock()
	w.Delete(resource, name, policy)
	metadata := map[string]any{"name": name}
	if resource == "crontabs" { // users write its finalizer
		metadata["finalizers"] = finalizers
	}
	again := string(apiserver.MustJSON(map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind, "metadata": metadata, "spec": spec}))
	gone := func() bool {
		w.Lock()
		defer w.Unlock()
		return w.Get(r, apiserver.Namespace, name) == nil
	}
	if gone() {
		w.Create(again)
		return
	}
	w.running.Go(func() {
		for range 6000 { // longer than any fault and the longest retry after it
			time.Sleep(100 * time.Millisecond)
			if gone() {
				w.Create(again)
				return
			}
		}
		w.Note("%s %s still exists after ten minutes", resource, name)
	})
}

// Destroy deletes like kubectl delete --force: it does not wait for the kubelet.
func (w *World) Destroy(resource, name string) {
	w.Lock()
	defer w.Unlock()
	w.Server.Note("user: delete %s/%s --force", resource, name)
	r := apiserver.ResourceNamed(resource)
	if old := w.Get(r, apiserver.Namespace, name); old != nil {
		_, _ = w.Server.Delete(apiserver.User, r, old, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	}
}
