package reconcile

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

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
	w := newWorld(t)
	counted, grown := onWire("blue", ns, eth1), onWire("blue 10.0.0.0/8", ns, eth1)
	counted.Status.Bound = 7
	for _, watch := range w.r.Watches() {
		if watch.Same == nil {
			continue
		}
		if !watch.Same(onWire("blue", ns, eth1), counted) || watch.Same(onWire("blue", ns, eth1), grown) {
			t.Error("a status wakes others, or a spec wakes none")
		}
		return
	}
	t.Error("the watch does not exist")
}
