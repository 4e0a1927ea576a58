package sim

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// What users do takes effect at once. It fails only for a mistake in a test.

// Create creates the objects of manifests.
func (w *World) Create(manifests ...string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	w.make(nil, manifests...)
}

// CreateOwned creates the object of the first manifest, and those of the others as its
// dependents.
func (w *World) CreateOwned(owner string, dependents ...string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	w.make(w.make(nil, owner), dependents...)
}

func (w *World) make(owner Object, manifests ...string) (last Object) {
	for _, m := range manifests {
		text, err := yaml.YAMLToJSON([]byte(m))
		if err != nil {
			panic(fmt.Sprintf("sim: read %s: %v", m, err))
		}
		obj, gvk, err := decoder.Decode(text, nil, nil)
		if err == nil && owner != nil {
			obj.(Object).SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GetObjectKind().GroupVersionKind())})
		}
		if err == nil {
			for _, r := range resources {
				if r.kind == gvk.Kind {
					last, err = w.create("user", r, cmp.Or(obj.(Object).GetNamespace(), r.namespace()), obj.(Object))
				}
			}
		}
		if err != nil {
			panic(fmt.Sprintf("sim: create %s: %v", m, err))
		}
		w.note("user: create %s %s", gvk.Kind, obj.(Object).GetName())
	}
	return last
}

// Patch is a merge patch. The name may be one with a namespace.
func (w *World) Patch(resource, name, patch string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	w.note("user: patch %s/%s %s", resource, name, patch)
	r := resourceNamed(resource)
	namespace, bare := r.place(name)
	old := w.objects[key{resource, namespace, bare}]
	if old == nil {
		panic(fmt.Sprintf("sim: patch %s %s: there is none", resource, name))
	}
	next, err := patched(string(types.MergePatchType), r, old.json(), []byte(patch))
	if err == nil {
		_, err = w.update("user", r, "", old.object, next, false)
	}
	if err != nil {
		panic(fmt.Sprintf("sim: patch %s %s: %v", resource, name, err))
	}
}

// Delete deletes; the policy "" is the default. What is not there is not deleted.
func (w *World) Delete(resource, name string, policy metav1.DeletionPropagation) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	w.note("user: delete %s/%s", resource, name)
	r := resourceNamed(resource)
	namespace, bare := r.place(name)
	old := w.get(r, namespace, bare)
	if old == nil {
		return
	}
	options := metav1.DeleteOptions{}
	if policy != "" {
		options.PropagationPolicy = &policy
	}
	if _, err := w.delete("user", r, old, options); err != nil {
		panic(fmt.Sprintf("sim: delete %s %s: %v", resource, name, err))
	}
}

// Expect has a Pod2 say each of some things in its condition Ready. While a watch
// stands still, it need not know of them.
func (w *World) Expect(pod2 string, texts ...string) {
	missing, said := w.unsaid(pod2, texts)
	if missing != "" {
		time.Sleep(40 * time.Second) // somebody may have changed it a moment ago
		missing, said = w.unsaid(pod2, texts)
	}
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	if missing != "" && w.Thaw == nil {
		w.fault(fmt.Sprintf("Pod2 %s does not say %q; it says: %s", pod2, missing, said))
	}
}

// unsaid is the first of the texts that the Pod2 does not say, and what it does say.
func (w *World) unsaid(pod2 string, texts []string) (missing, said string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	said = "nothing: there is no such Pod2"
	if p, ok := w.get(resourceNamed("pod2s"), Namespace, pod2).(*v1.Pod2); ok {
		said = "nothing"
		if ready := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionReady); ready != nil {
			said = ready.Message
		}
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			return text, said
		}
	}
	return "", said
}

// VNI is the number that a Network has, by its status.
func (w *World) VNI(network string) string {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	n, _ := w.get(resourceNamed("networks"), Namespace, network).(*v1.Network)
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(n.Status.VNI))
}

// Unserve takes a kind from the server, with all of its objects, as who deletes its
// CustomResourceDefinition. A watch of it ends.
func (w *World) Unserve(name string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	for _, v := range w.list(resourceNamed(name), "") {
		w.remove("user", resourceNamed(name), v.object)
	}
	w.unserved[name] = true
	for _, watcher := range w.watchers {
		if watcher.resource.Resource == name {
			watcher.stream.end(io.EOF)
		}
	}
	w.note("user: remove the kind of %s", name)
}

// Serve is the end of Unserve.
func (w *World) Serve(name string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	delete(w.unserved, name)
	w.note("user: install the kind of %s", name)
}
