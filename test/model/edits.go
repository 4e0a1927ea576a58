package model

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

func blue(cidr string) *v1.Network {
	return &v1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "blue"},
		Spec:       v1.NetworkSpec{CIDR: cidr, ReuseDelaySeconds: ptr.To[int32](0)},
	}
}

func bare(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1.ManagedLabel: "true"},
			Annotations: map[string]string{v1.NetworksAnnotation: "blue"},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: v1.AddressesGate}},
			Containers:      []corev1.Container{{Name: "c", Image: "one"}},
		},
	}
}

func web(replicas int32) *v1.Pod2 {
	return &v1.Pod2{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1.Pod2Spec{
			Replicas:       ptr.To(replicas),
			Networks:       []v1.Pod2Network{{Name: "blue"}},
			Template:       corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}}},
			UpdateStrategy: v1.Pod2UpdateStrategy{InPlace: v1.InPlaceNever},
		},
	}
}

func rolling(p *v1.Pod2, surge, unavailable int) *v1.Pod2 {
	p.Spec.UpdateStrategy.RollingUpdate = &v1.Pod2RollingUpdate{MaxSurge: ptr.To(intstr.FromInt(surge)), MaxUnavailable: ptr.To(intstr.FromInt(unavailable))}
	return p
}

// Edits.

func deletes(k Kind, name string) Edit {
	return Edit{"deletes " + k.String() + " " + name, 1, func(w *World) bool {
		if _, old := w.s.find(k, name); old == nil || old.value.GetDeletionTimestamp() != nil {
			return false
		}
		w.Delete(k, name)
		return true
	}}
}

func creates(k Kind, value apiserver.Object) Edit {
	return Edit{"creates " + k.String() + " " + value.GetName(), 1, func(w *World) bool {
		if _, old := w.s.find(k, value.GetName()); old != nil {
			return false
		}
		w.Create(k, decoded(k, encoded(value)))
		return true
	}}
}

func changes[T apiserver.Object](what string, k Kind, name string, change func(T)) Edit {
	return Edit{what, 1, func(w *World) bool {
		_, old := w.s.find(k, name)
		if old == nil {
			return false
		}
		next := clone[T](old)
		change(next)
		w.Put(k, next)
		return true
	}}
}

// orphans removes the owner reference of a replica that has its address.
func orphans(name string) Edit {
	return Edit{"removes the owner reference of " + name, 1, func(w *World) bool {
		_, old := w.s.find(Pods, name)
		if old == nil || len(old.value.GetOwnerReferences()) == 0 || len(spec.Published(old.value.(*corev1.Pod))) == 0 {
			return false
		}
		next := clone[*corev1.Pod](old)
		next.OwnerReferences = nil
		w.Put(Pods, next)
		return true
	}}
}

func scales(to int32) Edit {
	return changes("scales web", Pod2s, "web", func(p *v1.Pod2) { p.Spec.Replicas = ptr.To(to) })
}

// grows extends the CIDR of blue, one step after the other.
func grows(cidr string) Edit {
	return Edit{"grows blue to " + cidr, 1, func(w *World) bool {
		n := Get[*v1.Network](w, Networks, "blue")
		if n == nil || len(cidr) > len(n.Spec.CIDR) || cidr >= n.Spec.CIDR {
			return false
		}
		n.Spec.CIDR = cidr
		w.Put(Networks, n)
		return true
	}}
}

func stripped(name string) Edit {
	return Edit{"removes the finalizer of AddressBlock " + name + " and deletes it", 1, func(w *World) bool {
		_, old := w.s.find(Blocks, name)
		if old == nil {
			return false
		}
		block := clone[*v1.AddressBlock](old)
		block.Finalizers = nil
		w.Put(Blocks, block)
		w.Delete(Blocks, name)
		return true
	}}
}

func keysOf(pods ...string) []Key {
	keys := []Key{{"Network", "blue"}}
	for _, name := range pods {
		keys = append(keys, Key{"Pod", name})
	}
	return keys
}

func webKeys(pods ...string) []Key { return append(keysOf(pods...), Key{"Pod2", "web"}) }

const block0 = "blue-10.0.0.0"
