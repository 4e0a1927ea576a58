package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/ipam"
)

// BenchmarkSyncNetwork measures one sync for a pod that waits on a Network with many
// other pods, from the view to the write that binds the pod. The write is refused, so the
// next sync finds the pod waiting again. No server answers, because that would take longer
// than the sync. Between two syncs the caches show another version of one
// AddressBlock and of one pod, as in a busy cluster.
func BenchmarkSyncNetwork(b *testing.B) {
	for _, size := range []int{10, 1_000, 10_000, 65_000} {
		b.Run(fmt.Sprintf("bound=%d", size), func(b *testing.B) {
			w := newWorld(b, crowd(size)...)
			// A conflict ends the steps, so no status follows.
			w.r.writeBlocks.api = fenced.New(types.MergePatchType, func(string) fenced.Client[*v1.AddressBlock] { return conflicting{} })
			live := unchanging{network: stored[*v1.Network](w, "blue")}
			w.r.live.networks = func(string) getLister[*v1.Network, *v1.NetworkList] { return live }
			key := Key{KindNetwork, ns, "blue"}
			w.r.Watches()
			ctx := klog.NewContext(b.Context(), klog.Logger{})
			if _, err := w.r.Sync(ctx, key); !errors.Is(err, ErrStale) {
				b.Fatalf("want a refused write that binds the pod, got: %v", err)
			}
			blocks, pods := w.r.blocks.indexer, w.r.pods.indexer
			block, pod := stored[*v1.AddressBlock](w, "blue-10.1.0.0"), podOf(w, "pod-00000")
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if err := errors.Join(blocks.Update(block.DeepCopy()), pods.Update(pod.DeepCopy())); err != nil {
					b.Fatal(err)
				}
				w.r.podChanged(pod)
				b.StartTimer()
				if _, err := w.r.Sync(ctx, key); !errors.Is(err, ErrStale) {
					b.Fatalf("want a refused write that binds the pod, got: %v", err)
				}
			}
		})
	}
}

// conflicting is a client that refuses each patch.
type conflicting struct {
	fenced.Client[*v1.AddressBlock]
}

func (conflicting) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.AddressBlock, error) {
	return nil, errConflict
}

// unchanging is a client that has one Network.
type unchanging struct {
	getLister[*v1.Network, *v1.NetworkList]
	network *v1.Network
}

func (u unchanging) Get(context.Context, string, metav1.GetOptions) (*v1.Network, error) {
	return u.network, nil
}

// crowd returns a Network with many pods on it, and one pod that waits.
func crowd(size int) []runtime.Object {
	objects := []runtime.Object{newNetwork("blue"), newPod("waiting gated on=blue")}
	addr := netip.MustParseAddr("10.1.0.2")
	var block *v1.AddressBlock
	for i := range size {
		name := fmt.Sprintf("pod-%05d", i)
		objects = append(objects, newPod(fmt.Sprintf("%s on=blue published=blue:%s", name, addr)))
		entry := newBlock("blue", fmt.Sprintf("%s %s Bound", addr, name)).Spec.Entries
		if prefix := ipam.Block(addr); block == nil || block.Spec.CIDR != prefix.String() {
			block = newBlock("blue")
			block.Name, block.Spec.CIDR = ipam.BlockName("blue", prefix), prefix.String()
			block.UID = types.UID("uid-of-" + block.Name)
			objects = append(objects, block)
		}
		block.Spec.Entries = append(block.Spec.Entries, entry...)
		addr = addr.Next()
	}
	return objects
}

// BenchmarkSyncPod2 measures one sync of a Pod2 after an event of one of its pods, with
// nothing to write. This is the cost of each pod event while many pods are created or
// deleted. Either no pod is Ready, or all are available, without or with a PVC each.
func BenchmarkSyncPod2(b *testing.B) {
	unready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	available := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}
	for _, size := range []int32{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("unready/replicas=%d", size), func(b *testing.B) { benchmarkSyncPod2(b, newPod2("web", size), unready) })
		b.Run(fmt.Sprintf("available/replicas=%d", size), func(b *testing.B) { benchmarkSyncPod2(b, newPod2("web", size), available) })
		b.Run(fmt.Sprintf("claims/replicas=%d", size), func(b *testing.B) { benchmarkSyncPod2(b, storing(size, "1Gi"), available) })
	}
}

func benchmarkSyncPod2(b *testing.B, p *v1.Pod2, condition corev1.PodCondition) {
	w, size := newWorld(b, p), *p.Spec.Replicas
	key := Key{KindPod2, ns, "web"}
	ctx := klog.NewContext(b.Context(), klog.Logger{})
	rest := func() {
		for idle := 0; idle < 2; idle++ { // until it has written everything
			w.calls = nil
			if _, err := w.r.Sync(ctx, key); err != nil {
				b.Fatal(err)
			}
			if len(w.calls) > 0 {
				idle = -1
			}
			w.catchUp()
			w.later(mostCounts)
		}
		w.calls = nil
	}
	rest()
	for i := range size {
		pod := podOf(w, fmt.Sprintf("web-%d", i)).DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{condition}
		w.change(pod)
	}
	w.catchUp()
	rest()
	if got := stored[*v1.Pod2](w, "web").Status.AvailableReplicas; (got == size) != (condition.Status == corev1.ConditionTrue) {
		b.Fatalf("%d of %d replicas are available", got, size)
	}
	pod := podOf(w, "web-0")
	w.r.Watches()
	if _, err := w.r.Sync(ctx, key); err != nil { // looks at all pods
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if err := w.r.pods.indexer.Update(pod.DeepCopy()); err != nil {
			b.Fatal(err)
		}
		w.r.podChanged(pod)
		b.StartTimer()
		if _, err := w.r.Sync(ctx, key); err != nil {
			b.Fatal(err)
		}
	}
	if len(w.calls) > 0 {
		b.Fatalf("unexpected call: %s", w.calls[0])
	}
}
