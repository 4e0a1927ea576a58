//go:build long

package reconcile

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/pod2"
)

// limit is the memory limit in artifacts/40-deployment.yaml, and soft its GOMEMLIMIT.
const (
	limit = 1 << 30
	soft  = 900 << 20
)

// The largest Pod2, on a Network, fits into the memory that the Deployment gives the
// controller. This includes the caches and a sync of each kind. The test takes half a
// minute and a GiB.
func TestAHundredThousandReplicasFit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(soft))
	const replicas = 100_000
	p := newPod2("web", replicas, "blue")
	n := newNetwork("blue")
	n.Spec.CIDR = "10.0.0.0/8"
	w := newWorld(t, p, n)
	revision := pod2.Diff(pod2.State{Pod2: pod2.Defaulted(p)}).Create[0].Pod().Labels[v1.PodTemplateHashLabel]
	before := heapLive()
	fill(t, w, p, revision, replicas)
	standing := heapLive() - before
	for _, key := range []Key{{KindNetwork, ns, "blue"}, web, {KindDNS, ns, "web"}} {
		most := peak(func() {
			if _, err := w.r.Sync(klog.NewContext(t.Context(), klog.Logger{}), key); err != nil {
				t.Error(err)
			}
		})
		w.catchUp("pods", "addressblocks")
		t.Logf("%d replicas: %d MiB live, %d MiB at most in a sync of %s", replicas, standing>>20, most>>20, key)
		if most > limit {
			t.Errorf("a sync of %s takes %d MiB", key, most>>20)
		}
	}
	if n := stored[*v1.Pod2](w, "web").Status.AvailableReplicas; n != replicas {
		t.Errorf("the sync read %d replicas", n)
	}
	if n := stored[*v1.Network](w, "blue").Status.Bound; n != replicas {
		t.Errorf("the sync read %d addresses", n)
	}
}

// peak is the most memory, in bytes, that Go got from the operating system while work ran.
func peak(work func()) (most uint64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		metrics.Read(sample)
		most = max(most, sample[0].Value.Uint64()-sample[1].Value.Uint64())
		select {
		case <-done:
			return most
		case <-time.After(time.Millisecond):
		}
	}
}

func heapLive() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// fill adds replicas to the caches, as they come from the API server, each with its own
// strings, and their AddressBlocks.
func fill(t *testing.T, w *world, p *v1.Pod2, revision string, replicas int) {
	t.Helper()
	addr := netip.MustParseAddr("10.0.0.2")
	var block *v1.AddressBlock
	for i := range replicas {
		name := fmt.Sprintf("web-%d", i)
		if prefix := ipam.Block(addr); block == nil || block.Spec.CIDR != prefix.String() {
			block = newBlock("blue")
			block.Name, block.Spec.CIDR = ipam.BlockName("blue", prefix), prefix.String()
			if err := w.r.blocks.indexer.Add(block); err != nil {
				t.Fatal(err)
			}
		}
		pod := runningReplica(p, name, revision, addr)
		block.Spec.Entries = append(block.Spec.Entries, v1.AddressEntry{
			Address: addr.String(), Pod: name, PodUID: pod.UID, State: v1.AddressBound, Since: metav1.NewTime(now), Owner: v1.AddressOwner{Kind: KindPod2, Name: "web"},
		})
		slim, _ := SlimPod(reread(t, pod))
		if err := w.r.pods.indexer.Add(slim); err != nil {
			t.Fatal(err)
		}
		addr = addr.Next()
	}
}

func runningReplica(p *v1.Pod2, name, revision string, addr netip.Addr) *corev1.Pod {
	pod := newPod(name + " on=blue")
	pod.UID = types.UID("0b3ba7c4-6d3f-4b6e-9a51-" + fmt.Sprintf("%012d", addr.As4()[3]) + name)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, schema.GroupVersionKind{Group: v1.GroupName, Version: "v1", Kind: KindPod2})}
	pod.Labels = map[string]string{v1.ManagedLabel: "true", v1.Pod2Label: "web", v1.PodIndexLabel: name[4:], v1.PodTemplateHashLabel: revision, "app": "web"}
	pod.Annotations[v1.Pod2RequestAnnotation] = "blue"
	published := attachment.Address{Address: netip.PrefixFrom(addr, 8), Gateway: netip.MustParseAddr("10.0.0.1"), MAC: ipam.MAC(addr)}
	pod.Annotations[v1.AddressesAnnotation] = attachment.FormatAddresses(map[string]attachment.Address{"blue": published})
	pod.Annotations[v1.MultusAnnotation] = `[{"name":"blue","namespace":"default","interface":"net1","ips":["` + addr.String() + `/8"],"mac":"` + published.MAC + `"}]`
	pod.Spec = *p.Spec.Template.Spec.DeepCopy()
	pod.Spec.NodeName = "node-" + name
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: true, ContainerID: "containerd://" + name, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}},
		}},
	}
	return pod
}

func reread(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	read := &corev1.Pod{}
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	return read
}
