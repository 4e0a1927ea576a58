package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func overlayNetwork(text string) *v1.Network {
	n := newNetwork(text)
	n.Status.VNI, n.Status.Gateway = 70000, "10.1.0.1"
	return n
}

func newNode(name, address string) *corev1.Node {
	node := &corev1.Node{}
	node.Name = name
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	return node
}

// located are a Network, its AddressBlock, two nodes, and a running pod.
func located(more ...runtime.Object) []runtime.Object {
	return append([]runtime.Object{
		overlayNetwork("blue told"), newBlock("blue", "10.1.0.2 a Bound", "10.1.0.3 b Bound", "10.1.0.4 c Reserved"),
		newNode("n1", "192.0.2.1"), newNode("n2", "192.0.2.2"), newPod("a published=blue:10.1.0.2 node=n1"),
	}, more...)
}

func (w *world) locations(slice string) string {
	var lines []string
	for address, host := range stored[*v1.AddressSlice](w, slice).Spec.Locations {
		lines = append(lines, address+" on "+host)
	}
	return strings.Join(lines, ", ")
}

func TestAddressesAreLocated(t *testing.T) {
	w := newWorld(t, located(newPod("b published=blue:10.1.0.3"))...)
	same(t, w.syncText(KindAddressSlice, "blue"), "get networks blue\ncreate addressslices blue-0")
	same(t, w.locations("blue-0"), "10.1.0.2 on 192.0.2.1")
}

// The controller creates an AddressSlice without addresses, so the first pod of the Network starts
// even if the controller stops before.
func TestPropertiesComeBeforeTheFirstPod(t *testing.T) {
	w := newWorld(t, overlayNetwork("blue told"))
	same(t, w.syncText(KindAddressSlice, "blue"), "get networks blue\ncreate addressslices blue-0")
	same(t, stored[*v1.AddressSlice](w, "blue-0").Spec.Overlay.CIDR, "10.1.0.0/16")
}

// After a rest, a few changes are written at once, and then one each second.
func TestLocationsWaitAfterManyWrites(t *testing.T) {
	w := newWorld(t, located()...)
	written := 0
	for range 20 {
		w.remove(stored[*corev1.Pod](w, "a"))
		w.add(newPod("a published=blue:10.1.0.2 node=" + []string{"n1", "n2"}[written%2]))
		w.catchUp()
		if w.syncText(KindAddressSlice, "blue") != "" {
			written++
		}
	}
	if written != 6 {
		t.Errorf("%d writes at once", written)
	}
	w.clock.SetTime(now.Add(time.Second))
	same(t, w.syncText(KindAddressSlice, "blue"), "patch addressslices blue-0 uid=uid-of-blue-0 rv=123")
	w.remove(stored[*corev1.Pod](w, "a"))
	w.catchUp()
	same(t, w.syncText(KindAddressSlice, "blue"), "")
}

// The address of a pod that ended waits for the next pod, for a while.
func TestRemovalsGather(t *testing.T) {
	w := newWorld(t, located()...)
	w.syncText(KindAddressSlice, "blue")
	w.remove(newPod("a"))
	w.catchUp()
	for _, after := range []time.Duration{time.Second, 10 * time.Second} {
		w.clock.SetTime(now.Add(after))
		same(t, w.syncText(KindAddressSlice, "blue"), "")
	}
	w.clock.SetTime(now.Add(11 * time.Second))
	w.syncText(KindAddressSlice, "blue")
	same(t, w.locations("blue-0"), "")

	w.add(newPod("b published=blue:10.1.0.3 node=n2"))
	w.catchUp()
	w.clock.SetTime(now.Add(20 * time.Second))
	w.syncText(KindAddressSlice, "blue")
	w.remove(newPod("b"))
	w.catchUp()
	w.clock.SetTime(now.Add(25 * time.Second))
	w.syncText(KindAddressSlice, "blue")
	same(t, w.locations("blue-0"), "10.1.0.3 on 192.0.2.2")
}

// A removal that failed is tried again, without another wait.
func TestAFailedRemovalIsTriedAgain(t *testing.T) {
	w := newWorld(t, located()...)
	w.syncText(KindAddressSlice, "blue")
	w.remove(newPod("a"))
	w.catchUp()
	w.syncText(KindAddressSlice, "blue")
	w.later(removalsEvery)
	w.refuse = refusing("patch addressslices", quota)
	w.syncText(KindAddressSlice, "blue")
	w.refuse = nil
	w.syncText(KindAddressSlice, "blue")
	same(t, w.locations("blue-0"), "")
}

// While addresses only wait for their removal, their events share comparisons.
func TestANetworkRestsWhileRemovalsWait(t *testing.T) {
	w := newWorld(t, located(newPod("b published=blue:10.1.0.3 node=n2"))...)
	w.syncText(KindAddressSlice, "blue")
	w.remove(newPod("a"))
	w.catchUp()
	for i := range 2 * comparesBurst {
		result, err := w.r.Sync(t.Context(), Key{KindAddressSlice, ns, "blue"})
		if w.must(err); (result.Rest > 0) != (i >= comparesBurst) {
			t.Errorf("after comparison %d it rests %s", i+1, result.Rest)
		}
	}
	w.remove(newPod("b"))
	w.add(newPod("b published=blue:10.1.0.3 node=n1"))
	w.catchUp()
	w.syncText(KindAddressSlice, "blue") // a pod that moved does not wait for removals
	same(t, w.locations("blue-0"), "10.1.0.3 on 192.0.2.1")
}

// A node that the cache does not show yet, or without an address: the AddressSlice does not change.
func TestUnknownNode(t *testing.T) {
	w := newWorld(t, located(newPod("b published=blue:10.1.0.3 node=n9"))...)
	w.syncText(KindAddressSlice, "blue")
	same(t, w.locations("blue-0"), "10.1.0.2 on 192.0.2.1")
}

func TestBlockOfAFormerNetworkIsIgnored(t *testing.T) {
	objects := located()
	objects[1].(*v1.AddressBlock).Spec.NetworkUID = "former"
	w := newWorld(t, objects...)
	w.syncText(KindAddressSlice, "blue")
	same(t, w.locations("blue-0"), "")
}

func TestARefusedAddressSliceIsReported(t *testing.T) {
	w := newWorld(t, located()...)
	w.refuse = refusing("create addressslices", quota)
	if calls, want := w.syncText(KindAddressSlice, "blue"), "event on blue: Warning FailedWrite: exceeded quota"; !strings.Contains(calls, want) {
		t.Errorf("calls:\n%s\nwant in it\n%s", calls, want)
	}
}

// The owner reference was removed, so the garbage collector leaves the AddressSlice.
func TestAddressSliceOutlivesItsNetwork(t *testing.T) {
	slice := &v1.AddressSlice{ObjectMeta: metaOf("blue-0")}
	slice.Labels = map[string]string{v1.NetworkLabel: "blue"}
	w := newWorld(t, slice)
	same(t, w.syncText(KindAddressSlice, "blue"), "get networks blue -> NotFound\ndelete addressslices blue-0 uid=uid-of-blue-0 rv=101")

	w = newWorld(t, slice.DeepCopy())
	w.add(overlayNetwork("blue told")) // the cache does not show it yet
	same(t, w.syncText(KindAddressSlice, "blue"), "get networks blue\nAddressSlice default/blue exists: the view is out of date")
}

// An old view is retried quietly, a failure is not.
func TestAFailedConfirmationIsNoOldView(t *testing.T) {
	slice := &v1.AddressSlice{ObjectMeta: metaOf("blue-0")}
	slice.Labels = map[string]string{v1.NetworkLabel: "blue"}
	w := newWorld(t, slice)
	w.refuse = refusing("get networks", quota)
	if _, err := w.sync(KindAddressSlice, "blue"); err == nil || errors.Is(err, ErrStale) {
		t.Errorf("error %v, which must be the API server's", err)
	}
}

func TestAddressesOfNodes(t *testing.T) {
	w := newWorld(t, newNode("n1", "192.0.2.1"), newNode("n2", "192.0.2.2"))
	w.syncWoken(Key{KindAddressSlice, "kube-system", ""})
	same(t, strings.Join(w.calls, "\n"), "create addressslices nodes.0")
}

// Nodes behind one NAT may report the same external address. The cache returns nodes in another order each time.
func TestAnAddressOfManyNodesStaysWithTheFirst(t *testing.T) {
	var nodes []runtime.Object
	for i := range 20 {
		node := newNode(fmt.Sprintf("n%02d", i), fmt.Sprintf("192.0.2.%d", i))
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.7"})
		nodes = append(nodes, node)
	}
	w := newWorld(t, nodes...)
	state, _, err := w.r.kinds.addressSlice.observe(Key{KindAddressSlice, "kube-system", ""})
	w.must(err)
	same(t, state.Locations["203.0.113.7"], "192.0.2.0")
}

func TestConvergedAddressSlicesAreNotWritten(t *testing.T) {
	w := newWorld(t, located()...)
	w.syncText(KindAddressSlice, "blue")
	w.catchUp()
	w.clock.SetTime(now.Add(time.Second))
	same(t, w.syncText(KindAddressSlice, "blue"), "")
}
