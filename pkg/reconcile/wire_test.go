package reconcile

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func onWire(text, namespace, config string) *v1.Network {
	n := newNetwork(text)
	n.Namespace = namespace
	n.UID += "-of-" + types.UID(namespace)
	n.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI, Config: config}
	return n
}

// Networks of any namespace that the controller sees.
func TestANetworkIsToldWhoSharesItsWire(t *testing.T) {
	const eth1 = `{"type":"macvlan","master":"eth1"}`
	ours, theirs := onWire("blue told", ns, eth1), onWire("red", "other", `{"type":"ipvlan","master":"eth1"}`)
	w := newWorld(t, ours)
	if err := w.informers.Networks.Informer().GetIndexer().Add(theirs); err != nil {
		t.Fatal(err)
	}
	if calls := w.syncText(KindMultus, "blue"); !strings.Contains(calls, "event on blue: Warning SharedWire: ") || !strings.Contains(calls, "Network other/red hands out") {
		t.Errorf("calls\n%s", calls)
	}
	same(t, w.keysFor(theirs), "AddressHistory other/red, AddressSlice other/red, Multus blue, Multus other/red, Network other/red")
	same(t, w.keysFor(onWire("red", "other", `{"type":"ipvlan","master":"eth2"}`)), "AddressHistory other/red, AddressSlice other/red, Multus other/red, Network other/red")
}

// The counters in a status change all the time and do not wake the other Networks.
func TestOnlyTheSpecOfANetworkConcernsItsWire(t *testing.T) {
	const eth1 = `{"type":"macvlan","master":"eth1"}`
	w := newWorld(t, onWire("blue", ns, eth1), onWire("red", ns, eth1))
	counted, grown := onWire("blue", ns, eth1), onWire("blue 10.0.0.0/8", ns, eth1)
	counted.Status.Bound = 7
	same := w.wakes(t, onWire("blue", ns, eth1), "Multus red").Same
	if !same(onWire("blue", ns, eth1), counted) || same(onWire("blue", ns, eth1), grown) {
		t.Error("a status wakes others, or a spec wakes none")
	}
}

// While one Pod2 starts, the counters of its Network wake none of the others.
func TestWhichUpdatesOfANetworkConcernItsWorkloads(t *testing.T) {
	w := newWorld(t, newPod2("web", 1, "blue"), newNetwork("blue"))
	same := w.wakes(t, newNetwork("blue"), "Pod2 web").Same
	for name, row := range map[string]struct {
		change func(*v1.Network)
		same   bool
	}{
		"counted":  {func(n *v1.Network) { n.Status.Bound = 7 }, true},
		"another":  {func(n *v1.Network) { n.UID = "uid-of-another" }, false},
		"rests":    {func(n *v1.Network) { n.Spec.ReuseDelaySeconds = ptr.To[int32](7) }, false},
		"going":    {func(n *v1.Network) { n.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, false},
		"is full":  {func(n *v1.Network) { tell(n, v1.ConditionAddressesAvailable) }, false},
		"attached": {func(n *v1.Network) { tell(n, v1.ConditionAttachable) }, true},
	} {
		is := newNetwork("blue")
		if row.change(is); same(newNetwork("blue"), is) != row.same {
			t.Errorf("%s: an update without news for a Pod2 is %t, want %t", name, !row.same, row.same)
		}
	}
}

func tell(n *v1.Network, condition string) {
	n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionFalse})
}

// wakes returns the watch whose event of an object wakes the key.
func (w *world) wakes(t *testing.T, obj any, key string) Watch {
	t.Helper()
	for _, watch := range w.r.Watches() {
		for _, woken := range watch.Keys(obj) {
			if strings.ReplaceAll(woken.String(), ns+"/", "") == key {
				return watch
			}
		}
	}
	t.Fatalf("no watch wakes %s", key)
	return Watch{}
}
