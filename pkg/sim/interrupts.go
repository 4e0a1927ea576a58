package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Interrupt is what users do while a write of the program is on its way. In the end
// the specs are as they were: it ends as if nothing had been.
type Interrupt struct {
	Name string
	Do   func(*World)
}

// Interrupts happen to objects that are there; to others nothing does.
var Interrupts = []Interrupt{
	{"three edits", func(w *World) {
		if spec := w.spec("pod2s", "web"); spec != nil {
			w.Patch("pod2s", "web", scale(4))
			w.Patch("pod2s", "web", image("other"))
			w.Patch("pod2s", "web", string(mustJSON(map[string]any{"spec": spec})))
		}
		if spec := w.spec("networks", "blue"); spec != nil {
			w.Patch("networks", "blue", `{"spec":{"exclude":["10.0.0.2-10.0.0.250"],"reuseDelaySeconds":7}}`)
			patch := map[string]any{"exclude": nil}
			for name, value := range spec {
				patch[name] = value
			}
			w.Patch("networks", "blue", string(mustJSON(map[string]any{"spec": patch})))
		}
	}},
	{"the Pod2 or CronTab recreated", func(w *World) {
		w.Recreate("pod2s", "web")
		w.Recreate("crontabs", "report")
	}},
	{"all recreated", func(w *World) {
		w.Recreate("pod2s", "web")
		w.Recreate("crontabs", "report")
		if w.spec("pods", "bare") == nil { // which would keep it
			w.Recreate("networks", "blue")
		}
	}},
	{"a pod deleted", func(w *World) { w.Delete("pods", "web-0", "") }},
	{"labels of pods taken, and put back", func(w *World) {
		label := func(name, value string) {
			if w.spec("pods", name) != nil {
				w.Patch("pods", name, `{"metadata":{"labels":{"samplecrd.k8s.io/managed":`+value+`}}}`)
			}
		}
		label("web-0", "null")
		label("bare", "null")
		time.Sleep(3 * time.Second) // longer than an address rests
		label("web-0", `"true"`)
		label("bare", `"true"`)
	}},
	{"a pod deleted at once", func(w *World) { w.Destroy("pods", "web-0") }},
}

// spec is that of an object, nil if there is none or it is being deleted.
func (w *World) spec(resource, name string) map[string]any {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	v := w.objects[key{resource, Namespace, name}]
	if v == nil || v.object.GetDeletionTimestamp() != nil {
		return nil
	}
	return decodeJSON(v.json()).(map[string]any)["spec"].(map[string]any)
}

// Recreate deletes an object and creates it again, with the same spec, as soon as
// it is gone.
func (w *World) Recreate(resource, name string) {
	spec := w.spec(resource, name)
	if spec == nil {
		return
	}
	r := resourceNamed(resource)
	w.Server.mu.Lock()
	finalizers := w.get(r, Namespace, name).GetFinalizers()
	w.Server.mu.Unlock()
	w.Delete(resource, name, metav1.DeletePropagationBackground)
	metadata := map[string]any{"name": name}
	if resource == "crontabs" { // its users write it
		metadata["finalizers"] = finalizers
	}
	again := string(mustJSON(map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.kind, "metadata": metadata, "spec": spec}))
	gone := func() bool {
		w.Server.mu.Lock()
		defer w.Server.mu.Unlock()
		return w.get(r, Namespace, name) == nil
	}
	if gone() {
		w.Create(again)
		return
	}
	w.running.Go(func() {
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if gone() {
				w.Create(again)
				return
			}
		}
		w.Note("%s %s is not gone after a minute", resource, name)
	})
}

// Destroy is kubectl delete --force: no kubelet is waited for.
func (w *World) Destroy(resource, name string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	w.note("user: delete %s/%s --force", resource, name)
	r := resourceNamed(resource)
	if old := w.get(r, Namespace, name); old != nil {
		_, _ = w.delete("user", r, old, metav1.DeleteOptions{GracePeriodSeconds: ptrTo[int64](0)})
	}
}
