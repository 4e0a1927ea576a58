package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// The actions of users take effect at once. They fail only if a test is wrong.

// elsewhere puts a manifest's object into another namespace.
func elsewhere(manifest string) string {
	return strings.Replace(manifest, "metadata: {", "metadata: {namespace: other, ", 1)
}

// Create creates the objects of manifests.
func (w *World) Create(manifests ...string) {
	w.Lock()
	defer w.Unlock()
	w.make(nil, manifests...)
}

// CreateOwned creates the object of the first manifest, and the objects of the others as
// its dependents.
func (w *World) CreateOwned(owner string, dependents ...string) {
	w.Lock()
	defer w.Unlock()
	w.make(w.make(nil, owner), dependents...)
}

func (w *World) make(owner apiserver.Object, manifests ...string) (last apiserver.Object) {
	for _, m := range manifests {
		text, err := yaml.YAMLToJSON([]byte(m))
		if err != nil {
			panic(fmt.Sprintf("sim: read %s: %v", m, err))
		}
		obj, gvk, err := apiserver.Decoder.Decode(text, nil, nil)
		if err == nil && owner != nil {
			obj.(apiserver.Object).SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GetObjectKind().GroupVersionKind())})
		}
		if err == nil {
			for _, r := range apiserver.Resources {
				if r.Kind == gvk.Kind {
					last, err = w.Server.Create(apiserver.User, r, cmp.Or(obj.(apiserver.Object).GetNamespace(), r.Namespace()), obj.(apiserver.Object))
				}
			}
		}
		if err != nil {
			panic(fmt.Sprintf("sim: create %s: %v", m, err))
		}
		w.Server.Note("user: create %s %s", gvk.Kind, obj.(apiserver.Object).GetName())
	}
	return last
}

// Patch sends a merge patch. The name may include a namespace.
func (w *World) Patch(resource, name, patch string) {
	w.Lock()
	defer w.Unlock()
	w.Server.Note("user: patch %s/%s %s", resource, name, patch)
	r := apiserver.ResourceNamed(resource)
	namespace, bare := r.Place(name)
	old := w.Objects()[apiserver.KeyOf(resource, namespace, bare)]
	if old == nil {
		panic(fmt.Sprintf("sim: patch %s %s: the object does not exist", resource, name))
	}
	next, err := apiserver.Patched(string(types.MergePatchType), r, old.JSON(), []byte(patch))
	if err == nil {
		_, err = w.Update(apiserver.User, r, "", old.Object, next, false)
	}
	if err != nil {
		panic(fmt.Sprintf("sim: patch %s %s: %v", resource, name, err))
	}
}

// Delete deletes an object, if it exists. The policy "" is the default.
func (w *World) Delete(resource, name string, policy metav1.DeletionPropagation) {
	w.Lock()
	defer w.Unlock()
	w.Server.Note("user: delete %s/%s", resource, name)
	r := apiserver.ResourceNamed(resource)
	namespace, bare := r.Place(name)
	old := w.Get(r, namespace, bare)
	if old == nil {
		return
	}
	options := metav1.DeleteOptions{}
	if policy != "" {
		options.PropagationPolicy = &policy
	}
	if _, err := w.Server.Delete(apiserver.User, r, old, options); err != nil {
		panic(fmt.Sprintf("sim: delete %s %s: %v", resource, name, err))
	}
}

// Fail makes a pod fail, as if its node evicted it.
func (w *World) Fail(name string) {
	w.Lock()
	defer w.Unlock()
	w.Server.Note("kubelet: pod %s fails", name)
	r := apiserver.ResourceNamed("pods")
	namespace, bare := r.Place(name)
	if pod, ok := w.Get(r, namespace, bare).(*corev1.Pod); ok {
		apiserver.Edit(w.Server, "kubelet", pod, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			setCondition(p, corev1.PodReady, "PodFailed")
		})
	}
}

// VNI returns the VNI of a Network, by its status.
func (w *World) VNI(network string) string {
	w.Lock()
	defer w.Unlock()
	r := apiserver.ResourceNamed("networks")
	namespace, bare := r.Place(network)
	n, _ := w.Get(r, namespace, bare).(*v1.Network)
	if n == nil {
		return ""
	}
	return strconv.Itoa(int(n.Status.VNI))
}

// Unserve removes a kind and all of its objects from the server, like the deletion of its
// CustomResourceDefinition. Its watches end.
func (w *World) Unserve(name string) {
	w.Lock()
	defer w.Unlock()
	w.Server.Unserve(apiserver.ResourceNamed(name))
	w.Server.Note("user: remove the kind of %s", name)
}

// Serve reverts Unserve.
func (w *World) Serve(name string) {
	w.Lock()
	defer w.Unlock()
	w.Server.Serve(apiserver.ResourceNamed(name))
	w.Server.Note("user: install the kind of %s", name)
}
