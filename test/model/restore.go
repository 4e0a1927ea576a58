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

// restores are worlds in which objects come back from a backup: without UID, owner
// references and finalizers, in any order.
func restores() []*Config {
	return []*Config{
		{
			Name: "restore", Covers: "a Network, its block and a pod come back from a backup in any order, and another pod comes",
			Controllers: 1, OldViews: 1, Keys: keysOf("a", "b"), Ticks: 1, Tick: time.Minute,
			Setup: func(*World) {},
			Edits: []Edit{
				creates(Networks, backedUp()), creates(Blocks, backedUpBlock(v1.AddressOwner{}, "a")),
				creates(Pods, brings(bare("a"), "10.0.0.4")), creates(Pods, bare("b")),
			},
			End: keepsAddress("a", "10.0.0.4"),
		},
		{
			Name: "restore-two", Covers: "a pod comes back to a Network and a block that did, and another pod comes, two writers",
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
			Name: "restore-pod2", Covers: "a Pod2 comes back before or after its pod, which it adopts, and its pod may be deleted",
			Controllers: 1, OldViews: 1, Keys: webKeys("web-0"), Crashes: 1, OneWriter: true,
			Setup: func(w *World) {
				w.Create(Networks, backedUp())
				w.Create(Blocks, backedUpBlock(v1.AddressOwner{Kind: "Pod2", Name: "web"}, "web-0"))
			},
			Edits: []Edit{creates(Pod2s, web(1)), creates(Pods, brings(replica("web-0"), "10.0.0.4")), deletes(Pods, "web-0")},
			End:   all(inherits, keepsAddress("web-0", "10.0.0.4")),
		},
		{
			Name: "restore-anew", Covers: "a Network in use is lost with its block and all pods, all are restored, and views are from before",
			Controllers: 2, OldViews: 1, Keys: keysOf("a", "b"), Tick: time.Minute,
			Setup: func(w *World) {
				w.Create(Networks, blue("10.0.0.0/29"))
				w.Create(Pods, bare("a"))
			}, Then: func(*World) {},
			Edits: []Edit{allRestored(), creates(Pods, bare("b"))},
		},
		{
			Name: "restore-in-use", Covers: "a Network and its block are lost and restored while the pod that holds an address lives or is deleted",
			Controllers: 1, OldViews: 1, Keys: keysOf("a", "b"), Ticks: 1, Tick: time.Minute,
			Setup: func(w *World) {
				w.Create(Networks, blue("10.0.0.0/23")) // the block of an earlier Network is passed over, whole
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

// backedUpBlock binds an address to a pod that is gone: not the lowest, which anybody gets.
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

// replica is one of web without its owner reference.
func replica(name string) *corev1.Pod {
	pod := bare(name)
	pod.Spec.Hostname = name
	pod.Labels[v1.Pod2Label] = "web"
	pod.Labels[v1.PodIndexLabel] = "0"
	pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(web(1))
	pod.Annotations[v1.Pod2RequestAnnotation] = "blue"
	return pod
}

// allRestored loses the Network, its block and all pods, and has them back.
func allRestored() Edit {
	return Edit{"loses all, and restores it", 1, func(w *World) bool {
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

// restore loses an object and has it back from a backup of just before: whatever a
// restore creates has another UID, no owner reference and no status, and a pod is gated.
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

// inherits: where nothing keeps it from that, the Network inherits the block.
func inherits(w *World) string {
	if block := Get[*v1.AddressBlock](w, Blocks, block0); block == nil || block.Annotations[v1.InheritedAnnotation] == "" {
		return "S3: the restored block is not inherited"
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

// keepsAddress: S3, whoever has the name has the address, or waits for it.
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
				return "S3: " + name + " had " + address + ", and has " + h.Address.String()
			}
		}
		return ""
	}
}
