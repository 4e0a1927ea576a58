package model

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// Small returns configurations that take seconds.
func Small() []*Config {
	tiny := "10.0.0.0/29"
	network := func(w *World) { w.Create(Networks, blue(tiny)) }
	// A resting address is not the lowest free one, so a replica that lost its address does
	// not get it back by chance.
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
	other := web(1)
	other.Spec.Template.Spec.Containers[0].Image = "two"
	both := func(a, b func(*World)) func(*World) { return func(w *World) { a(w); b(w) } }
	return append(slices.Concat(restores(), earlierHolders()), []*Config{
		{
			Name: "bind", Covers: "two writers bind and publish two pods",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"), Crashes: 1, LostAnswers: 1,
			Setup: network, Then: with("a", "b"),
		},
		{
			Name: "new-network", Covers: "a new Network and a new pod on it",
			Controllers: 2, OldViews: 1, Keys: keysOf("a"), Crashes: 1, LostAnswers: 1,
			Setup: both(network, with("a")),
		},
		{
			Name: "rebind", Covers: "a pod fails or is deleted and is recreated, another pod waits for the only address",
			Controllers: 2, Keys: keysOf("a", "b"), Deaths: 1, Graceful: true,
			Setup: both(func(w *World) { w.Create(Networks, blue("10.0.0.0/30")) }, with("a")), Then: with("b"),
			Edits: []Edit{deletes(Pods, "a"), creates(Pods, bare("a"))},
		},
		{
			Name: "release", Covers: "a pod is created for the only address, which another pod may have taken meanwhile",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"),
			Setup: func(w *World) { w.Create(Networks, blue("10.0.0.0/30")) }, Then: with("b"),
			Edits: []Edit{creates(Pods, bare("a"))},
		},
		{
			Name: "several", Covers: "two pods request the same two Networks, each with one address",
			Controllers: 2, OldViews: 1, Keys: append([]Key{{"Network", "green"}}, keysOf("a", "b")...),
			Setup: func(w *World) {
				for _, name := range []string{"blue", "green"} {
					n := blue("10.0.0.0/30")
					n.Name = name
					w.Create(Networks, n)
				}
			}, Then: func(w *World) {
				for _, name := range []string{"a", "b"} {
					pod := bare(name)
					pod.Annotations[v1.NetworksAnnotation] = "blue,green"
					w.Create(Pods, pod)
				}
			},
			End: func(w *World) string {
				if spec.Live(Get[*corev1.Pod](w, Pods, "a")) || spec.Live(Get[*corev1.Pod](w, Pods, "b")) {
					return ""
				}
				return "L1: each pod waits for the address that the other holds"
			},
		},
		{
			Name: "rest", Covers: "the only address rests after its pod is deleted, another pod waits for it, the first is recreated",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"), Ticks: 1, Tick: time.Minute,
			Setup: both(func(w *World) {
				n := blue("10.0.0.0/30")
				n.Spec.ReuseDelaySeconds = ptr.To[int32](60)
				w.Create(Networks, n)
			}, with("a")), Then: with("b"),
			Edits: []Edit{deletes(Pods, "a")},
		},
		{
			// Pod b requests the broadcast address of the second CIDR. It may have the
			// address only if no pod runs with that CIDR now or later.
			Name: "growth", Covers: "the CIDR grows twice while a pod is bound and publishes, another pod requests one address",
			Controllers: 2, Keys: keysOf("a", "b"),
			Setup: func(w *World) { w.Create(Networks, blue("10.0.0.0/30")) }, Then: func(w *World) {
				w.Create(Pods, bare("a"))
				b := bare("b")
				b.Annotations[v1.NetworksAnnotation] = "blue=10.0.0.7"
				w.Create(Pods, b)
			},
			Edits: []Edit{grows("10.0.0.0/29"), grows("10.0.0.0/28")},
		},
		{
			Name: "delete-network", Covers: "a Network is deleted and recreated while a pod is bound to it for the first time",
			Controllers: 2, Keys: keysOf("a"),
			Setup: network, Then: with("a"),
			Edits: []Edit{deletes(Networks, "blue"), creates(Networks, blue(tiny))},
		},
		{
			Name: "network-goes", Covers: "a Network is deleted while a pod is bound to it for the first time, one view is old",
			Controllers: 2, OldViews: 1, Keys: keysOf("a"), Crashes: 1, LostAnswers: 1,
			Setup: network, Then: with("a"),
			Edits: []Edit{deletes(Networks, "blue")},
		},
		{
			Name: "network-in-use", Covers: "a Network in use and its pod are deleted and recreated",
			Controllers: 2, Keys: keysOf("a"),
			Setup: both(network, with("a")), Then: func(*World) {},
			Edits: []Edit{deletes(Networks, "blue"), deletes(Pods, "a"), creates(Networks, blue(tiny)), creates(Pods, bare("a"))},
		},
		{
			Name: "delete-block", Covers: "a user deletes the AddressBlock of a pod that publishes while another pod is bound",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"), Crashes: 1,
			Setup: both(network, with("a")), Then: with("b"),
			Edits: []Edit{deletes(Blocks, block0), deletes(Pods, "a")},
		},
		{
			Name: "strip-block", Covers: "the AddressBlock of a pod that publishes loses its finalizer and is removed while another pod is created",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"),
			Setup: both(network, with("a")), Then: func(*World) {},
			Edits: []Edit{stripped(block0), creates(Pods, bare("b"))},
		},
		{
			Name: "reserve", Covers: "the address of a deleted replica is reserved, another pod is created",
			Controllers: 1, OldViews: 1, Keys: webKeys("web-0", "b"), Crashes: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{deletes(Pods, "web-0"), creates(Pods, bare("b"))},
		},
		{
			Name: "scale", Covers: "scale up by one replica, and back",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0", "web-1"), Crashes: 1, LostAnswers: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{scales(2), scales(1)},
		},
		{
			Name: "surge", Covers: "a rolling update with surge",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0", "web-1"), Crashes: 1, LostAnswers: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, rolling(web(1), 1, 0))
			}, Then: func(*World) {},
			Edits: []Edit{changes("changes the image", Pod2s, "web", func(p *v1.Pod2) { p.Spec.Template.Spec.Containers[0].Image = "two" })},
		},
		{
			Name: "surge-node", Covers: "a rolling update with surge, the node of a replica is lost",
			Controllers: 1, Keys: webKeys("web-0", "web-1"), Deaths: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, rolling(web(1), 1, 0))
			}, Then: func(*World) {},
			Edits: []Edit{changes("changes the image", Pod2s, "web", func(p *v1.Pod2) { p.Spec.Template.Spec.Containers[0].Image = "two" })},
		},
		{
			Name: "young", Covers: "a rolling update begins while replicas are Ready but not yet available",
			Controllers: 1, OldViews: 1, Keys: webKeys("web-0", "web-1"), Crashes: 1, Ticks: 2, Tick: time.Minute,
			Graceful: true, Ready: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				p := web(2)
				p.Spec.MinReadySeconds = 60
				w.Create(Pod2s, p)
			}, Then: func(*World) {},
			Edits: []Edit{changes("changes the image", Pod2s, "web", func(p *v1.Pod2) { p.Spec.Template.Spec.Containers[0].Image = "two" })},
		},
		{
			Name: "adopt", Covers: "the owner reference of a replica is removed, the pod may be deleted",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0"), Crashes: 1, Graceful: true, Keeps: true, OneWriter: true,
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
			Name: "orphan", Covers: "the owner reference of a replica is removed while it is scaled down",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0"), Crashes: 1, LostAnswers: 1, Graceful: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{scales(0), orphans("web-0")},
		},
		{
			Name: "takeover", Covers: "a pod without a controller is adopted, and may be deleted",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0"), Crashes: 1, Graceful: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				pod := bare("web-0")
				pod.Spec.Hostname = "web-0"
				w.Create(Pods, pod)
			}, Then: func(w *World) { w.Create(Pod2s, web(1)) },
			Edits: []Edit{deletes(Pods, "web-0")},
		},
		{
			Name: "delete-pod2", Covers: "a Pod2 is deleted and recreated with another template",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0"), Crashes: 1, Graceful: true, Keeps: true, OneWriter: true,
			Setup: func(w *World) {
				resting(w)
				w.Create(Pod2s, web(1))
			}, Then: func(*World) {},
			Edits: []Edit{deletes(Pod2s, "web"), creates(Pod2s, other)},
		},
		{
			Name: "node", Covers: "a replica fails, or its node is lost",
			Controllers: 1, OldViews: 2, Keys: webKeys("web-0", "web-1"), Deaths: 1, Crashes: 1, Graceful: true, Ready: true, Keeps: true, OneWriter: true,
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
	}...)
}
