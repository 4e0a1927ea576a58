package model

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
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

func creates(k Kind, value metav1.Object) Edit {
	return Edit{"creates " + k.String() + " " + value.GetName(), 1, func(w *World) bool {
		if _, old := w.s.find(k, value.GetName()); old != nil {
			return false
		}
		w.Create(k, decoded(k, encoded(value)))
		return true
	}}
}

func changes[T metav1.Object](what string, k Kind, name string, change func(T)) Edit {
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

// orphans takes the owner reference from a replica that has its address.
func orphans(name string) Edit {
	return Edit{"removes the owner reference of " + name, 1, func(w *World) bool {
		_, old := w.s.find(Pods, name)
		if old == nil || len(old.value.GetOwnerReferences()) == 0 || len(old.publishes()) == 0 {
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

func stripped(name string) Edit {
	return Edit{"takes the finalizer from block " + name + " and deletes it", 1, func(w *World) bool {
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

// Small configurations take seconds.
func Small() []*Config {
	tiny := "10.0.0.0/29"
	network := func(w *World) { w.Create(Networks, blue(tiny)) }
	// An address that rests is not the lowest free one: a replica that lost its own
	// does not get it back by chance.
	resting := func(w *World) {
		n := blue(tiny)
		n.Spec.ReuseDelaySeconds = ptr.To[int32](60)
		w.Create(Networks, n)
	}
	with := func(pods ...string) func(w *World) {
		return func(w *World) {
			for _, name := range pods {
				w.Create(Pods, bare(name))
			}
		}
	}
	both := func(a, b func(*World)) func(*World) { return func(w *World) { a(w); b(w) } }
	return []*Config{
		{
			Name: "bind", Covers: "two pods are bound and publish, two writers",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"), Crashes: 1, LostAnswers: 1,
			Setup: network, Then: with("a", "b"),
		},
		{
			Name: "new-network", Covers: "a Network and a pod on it are new",
			Controllers: 2, OldViews: 1, Keys: keysOf("a"), Crashes: 1, LostAnswers: 1,
			Setup: both(network, with("a")),
		},
		{
			Name: "rebind", Covers: "a pod fails or is deleted and comes again under its name, another pod waits for the one address",
			Controllers: 2, Keys: keysOf("a", "b"), Deaths: 1, Graceful: true,
			Setup: both(func(w *World) { w.Create(Networks, blue("10.0.0.0/30")) }, with("a")), Then: with("b"),
			Edits: []Edit{deletes(Pods, "a"), creates(Pods, bare("a"))},
		},
		{
			Name: "release", Covers: "two pods for one address are created, one after the other",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"),
			Setup: func(w *World) { w.Create(Networks, blue("10.0.0.0/30")) }, Then: with("a"),
			Edits: []Edit{creates(Pods, bare("b"))},
		},
		{
			Name: "several", Covers: "a pod on two Networks and one on the second of them",
			Controllers: 2, Keys: append([]Key{{"Network", "green"}}, keysOf("a", "b")...),
			Setup: func(w *World) {
				network(w)
				green := blue(tiny)
				green.Name = "green"
				w.Create(Networks, green)
			}, Then: func(w *World) {
				a, b := bare("a"), bare("b")
				a.Annotations[v1.NetworksAnnotation] = "blue,green"
				b.Annotations[v1.NetworksAnnotation] = "green"
				w.Create(Pods, a)
				w.Create(Pods, b)
			},
		},
		{
			Name: "rest", Covers: "the one address rests after its pod is deleted, another pod waits for it, the first comes again",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"), Ticks: 1, Tick: time.Minute,
			Setup: both(func(w *World) {
				n := blue("10.0.0.0/30")
				n.Spec.ReuseDelaySeconds = ptr.To[int32](60)
				w.Create(Networks, n)
			}, with("a")), Then: with("b"),
			Edits: []Edit{deletes(Pods, "a")},
		},
		{
			Name: "delete-network", Covers: "a Network is deleted and created again under its name while a pod is bound to it for the first time",
			Controllers: 2, Keys: keysOf("a"),
			Setup: network, Then: with("a"),
			Edits: []Edit{deletes(Networks, "blue"), creates(Networks, blue(tiny))},
		},
		{
			Name: "network-in-use", Covers: "a Network in use is deleted and created again under its name, its pod too",
			Controllers: 2, Keys: keysOf("a"),
			Setup: both(network, with("a")), Then: func(*World) {},
			Edits: []Edit{deletes(Networks, "blue"), deletes(Pods, "a"), creates(Networks, blue(tiny)), creates(Pods, bare("a"))},
		},
		{
			Name: "delete-block", Covers: "the block of a pod that publishes is deleted by hand while another pod is bound",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"),
			Setup: both(network, with("a")), Then: with("b"),
			Edits: []Edit{deletes(Blocks, block0), deletes(Pods, "a")},
		},
		{
			Name: "strip-block", Covers: "the block of a pod that publishes loses its finalizer and goes while another pod is created",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"),
			Setup: both(network, with("a")), Then: func(*World) {},
			Edits: []Edit{stripped(block0), creates(Pods, bare("b"))},
		},
		{
			Name: "reserve", Covers: "the address of a replica that is deleted is reserved, another pod comes",
			Controllers: 1, OldViews: 1, Keys: webKeys("web-0", "b"), Crashes: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true, Unavailable: 1,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{deletes(Pods, "web-0"), creates(Pods, bare("b"))},
		},
		{
			Name: "scale", Covers: "one replica more, and back",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0", "web-1"), Crashes: 1, LostAnswers: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true, Unavailable: 1,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{scales(2), scales(1)},
		},
		{
			Name: "surge", Covers: "a rolling update with surge",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0", "web-1"), Crashes: 1, LostAnswers: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true, Surge: 1,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, rolling(web(1), 1, 0))
			}, Then: func(*World) {},
			Edits: []Edit{changes("changes the image", Pod2s, "web", func(p *v1.Pod2) { p.Spec.Template.Spec.Containers[0].Image = "two" })},
		},
		{
			Name: "adopt", Covers: "the owner reference of a replica is removed, the pod may be deleted",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0"), Crashes: 1, Graceful: true, Keeps: true, OneWriter: true, Unavailable: 1,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{
				orphans("web-0"),
				deletes(Pods, "web-0"),
			},
		},
		{
			Name: "takeover", Covers: "a pod without a controller is adopted, and may be deleted",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0"), Crashes: 1, Graceful: true, Keeps: true, OneWriter: true, Unavailable: 1,
			Setup: func(w *World) {
				resting(w)
				pod := bare("web-0")
				pod.Spec.Hostname = "web-0"
				w.Create(Pods, pod)
			}, Then: func(w *World) { w.Create(Pod2s, web(1)) },
			Edits: []Edit{deletes(Pods, "web-0")},
		},
		{
			Name: "delete-pod2", Covers: "a Pod2 is deleted and created again under its name",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0"), Crashes: 1, Graceful: true, Keeps: true, OneWriter: true, Unavailable: 1,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{deletes(Pod2s, "web"), creates(Pod2s, web(1))},
		},
		{
			Name: "node", Covers: "a replica fails, or its node is lost",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0", "web-1"), Deaths: 1, Crashes: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true, Unavailable: 1,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(2))
			}, Then: func(*World) {},
		},
		{
			Name: "two-writers", Covers: "two writers create one replica and bind it",
			Controllers: 2, OldViews: 1, Keys: webKeys("web-0"),
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(0))
			}, Then: func(w *World) {
				p := Get[*v1.Pod2](w, Pod2s, "web")
				p.Spec.Replicas = ptr.To[int32](1)
				w.Put(Pod2s, p)
			},
		},
	}
}

// Refuted are worlds that the protocol does not fence, and says so: a search has to
// find how they fail, or it would find nothing.
func Refuted() []*Config {
	return []*Config{{
		Name: "strip-bound", Covers: "a block loses its finalizer and goes while a pod is bound and has yet to publish",
		Controllers: 2, Keys: keysOf("a", "b"),
		Setup: func(w *World) { w.Create(Networks, blue("10.0.0.0/29")) },
		Then:  func(w *World) { w.Create(Pods, bare("b")) },
		Edits: []Edit{stripped(block0), creates(Pods, bare("a"))},
	}}
}
