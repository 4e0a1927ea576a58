package model

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

// gone is the UID of a Network from before the search.
const gone = "gone"

// restores are worlds in which objects are restored from a backup in any order, without
// UID, owner references and finalizers.
func restores() []*Config {
	return []*Config{
		{
			Name: "restore", Covers: "a Network, its AddressBlock and a pod are restored in any order, another pod is created",
			Controllers: 1, OldViews: 1, Keys: keysOf("a", "b"), Ticks: 1, Tick: time.Minute,
			Setup: func(*World) {},
			Edits: []Edit{
				creates(Networks, backedUp()), creates(Blocks, backedUpBlock(v1.AddressOwner{}, "a")),
				creates(Pods, brings(bare("a"), "10.0.0.4")), creates(Pods, bare("b")),
			},
			End: keepsAddress("a", "10.0.0.4"),
		},
		{
			Name: "restore-two", Covers: "a pod is restored after its Network and AddressBlock, another pod is created, two writers",
			Controllers: 2, Keys: keysOf("a", "b"), Ticks: 1, Tick: time.Minute,
			Setup: func(w *World) {
				w.Create(Networks, backedUp())
				w.Create(Blocks, backedUpBlock(v1.AddressOwner{}, "a"))
				w.Create(Pods, bare("b"))
			},
			Edits: []Edit{creates(Pods, brings(bare("a"), "10.0.0.4"))},
			End:   all(inherits, keepsAddress("a", "10.0.0.4")),
		},
		{
			Name: "restore-pod2", Covers: "a Pod2 is restored before or after its pod and adopts it, the pod may be deleted",
			Controllers: 1, OldViews: 1, Keys: webKeys("web-0"), Crashes: 1, OneWriter: true,
			Setup: func(w *World) {
				w.Create(Networks, backedUp())
				w.Create(Blocks, backedUpBlock(v1.AddressOwner{Kind: "Pod2", Name: "web"}, "web-0"))
			},
			Edits: []Edit{creates(Pod2s, web(1)), creates(Pods, brings(replica("web-0"), "10.0.0.4")), deletes(Pods, "web-0")},
			End:   all(inherits, keepsAddress("web-0", "10.0.0.4")),
		},
		{
			Name: "restore-anew", Covers: "a Network in use, its AddressBlock and all pods are lost and restored, views are older",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"), Tick: time.Minute,
			Setup: func(w *World) {
				w.Create(Networks, blue("10.0.0.0/29"))
				w.Create(Pods, bare("a"))
			}, Then: func(*World) {},
			Edits: []Edit{allRestored(), creates(Pods, bare("b"))},
		},
		{
			Name: "restore-in-use", Covers: "a Network and its AddressBlock are lost and restored while their pod lives or is deleted",
			Controllers: 1, OldViews: 1, Keys: keysOf("a", "b"), Ticks: 1, Tick: time.Minute,
			Setup: func(w *World) {
				w.Create(Networks, blue("10.0.0.0/23")) // the Network skips the whole AddressBlock of an earlier Network
				w.Create(Pods, bare("a"))
			}, Then: func(w *World) {
				w.restore(Networks, "blue")
				w.restore(Blocks, block0)
			},
			Edits: []Edit{creates(Pods, bare("b")), deletes(Pods, "a")},
		},
	}
}

func backedUp() *v1.Network {
	n := blue("10.0.0.0/29")
	n.Annotations = map[string]string{v1.NetworkUIDAnnotation: gone, v1.GatewayAnnotation: "10.0.0.1"}
	return n
}

// backedUpBlock binds an address to a pod that is gone. It is not the lowest address, which
// any pod gets.
func backedUpBlock(owner v1.AddressOwner, pod string) *v1.AddressBlock {
	return &v1.AddressBlock{
		ObjectMeta: metav1.ObjectMeta{Name: block0},
		Spec: v1.AddressBlockSpec{Network: "blue", NetworkUID: gone, CIDR: "10.0.0.0/24", Entries: []v1.AddressEntry{
			{Address: "10.0.0.4", Pod: pod, PodUID: "gone-too", Owner: owner, State: v1.AddressBound, Since: metav1.NewTime(begins.Add(-time.Hour))},
		}},
	}
}

func brings(pod *corev1.Pod, address string) *corev1.Pod {
	pod.Annotations[v1.AddressesAnnotation] = `{"blue":{"address":"` + address + `/29","gateway":"10.0.0.1","mac":"0a:58:0a:00:00:04"}}`
	return pod
}

// replica is a replica of web without its owner reference.
func replica(name string) *corev1.Pod {
	pod := bare(name)
	pod.Spec.Hostname = name
	pod.Labels[v1.Pod2Label] = "web"
	pod.Labels[v1.PodIndexLabel] = "0"
	pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(web(1))
	pod.Annotations[v1.Pod2RequestAnnotation] = "blue"
	return pod
}

// allRestored deletes the Network, its AddressBlock and all pods, and restores them.
func allRestored() Edit {
	return Edit{"loses all objects and restores them", 1, func(w *World) bool {
		if _, block := w.s.find(Blocks, block0); block == nil {
			return false
		}
		w.restore(Networks, "blue")
		w.restore(Blocks, block0)
		for _, pod := range w.s.server[Pods] {
			w.restore(Pods, pod.name)
		}
		return true
	}}
}

// restore deletes an object and restores it from a fresh backup. A restored object has a
// new UID, no owner reference and no status, and a restored pod is gated.
func (w *World) restore(k Kind, name string) {
	_, old := w.s.find(k, name)
	value := clone[apiserver.Object](old)
	w.s.nextVersion(k)
	w.s.remove(old)
	value.SetUID("")
	value.SetResourceVersion("")
	value.SetOwnerReferences(nil)
	value.SetFinalizers(nil)
	value.SetDeletionTimestamp(nil)
	if pod, ok := value.(*corev1.Pod); ok {
		pod.Status = corev1.PodStatus{}
		pod.Spec.NodeName = ""
		pod.Spec.SchedulingGates = bare(name).Spec.SchedulingGates
	}
	w.Create(k, value)
}

// inherits checks that the Network inherits the AddressBlock, if nothing prevents that.
func inherits(w *World) string {
	if block := Get[*v1.AddressBlock](w, Blocks, block0); block == nil || block.Annotations[v1.InheritedAnnotation] == "" {
		return "S3: the restored AddressBlock is not inherited"
	}
	return ""
}

func all(ends ...func(*World) string) func(*World) string {
	return func(w *World) string {
		for _, end := range ends {
			if why := end(w); why != "" {
				return why
			}
		}
		return ""
	}
}

// keepsAddress checks S3: a pod with this name has the address, or waits for it.
func keepsAddress(name, address string) func(*World) string {
	return func(w *World) string {
		pod := Get[*corev1.Pod](w, Pods, name)
		block := Get[*v1.AddressBlock](w, Blocks, block0)
		if pod == nil || block == nil || block.Annotations[v1.InheritedAnnotation] == "" || !spec.Live(pod) {
			return ""
		}
		_, o := w.s.find(Pods, name)
		for _, h := range o.holds() {
			if h.Address.String() != address {
				return "S3: " + name + " had " + address + ", and now has " + h.Address.String()
			}
		}
		return ""
	}
}
