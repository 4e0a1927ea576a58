package sim

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// user is by whom it is what users do in a test.
const user = "user"

// What users do takes effect at once. It fails only for a mistake in a test.

// elsewhere is a manifest's object in another namespace.
func elsewhere(manifest string) string {
	return strings.Replace(manifest, "metadata: {", "metadata: {namespace: other, ", 1)
}

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
					last, err = w.create(user, r, cmp.Or(obj.(Object).GetNamespace(), r.namespace()), obj.(Object))
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
		_, err = w.update(user, r, "", old.object, next, false)
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
	if _, err := w.delete(user, r, old, options); err != nil {
		panic(fmt.Sprintf("sim: delete %s %s: %v", resource, name, err))
	}
}

// Fail has a pod fail, as when its node evicts it.
func (w *World) Fail(name string) {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	w.note("kubelet: pod %s fails", name)
	r := resourceNamed("pods")
	namespace, bare := r.place(name)
	if pod, ok := w.get(r, namespace, bare).(*corev1.Pod); ok {
		edit(w.Server, "kubelet", pod, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			setCondition(p, corev1.PodReady, "PodFailed")
		})
	}
}

// VNI is the number that a Network has, by its status.
func (w *World) VNI(network string) string {
	w.Server.mu.Lock()
	defer w.Server.mu.Unlock()
	r := resourceNamed("networks")
	namespace, bare := r.place(network)
	n, _ := w.get(r, namespace, bare).(*v1.Network)
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
		w.remove(user, resourceNamed(name), v.object)
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
