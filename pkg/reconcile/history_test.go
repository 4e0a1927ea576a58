package reconcile

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/history"
)

// released is a world in which pod a held 10.1.0.2, on a node, and the address was taken back.
func released(t *testing.T) *world {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a published=blue:10.1.0.2 node=n1"))
	pod := podOf(w, "a")
	same(t, w.syncText(KindAddressHistory, "blue"), "")
	w.remove(pod)
	block := stored[*v1.AddressBlock](w, "blue-10.1.0.0")
	block.Spec.Entries = newBlock("blue", "10.1.0.2 a Resting").Spec.Entries
	w.change(block)
	w.catchUp()
	same(t, w.syncText(KindAddressHistory, "blue"), "")
	w.later(history.EndsEvery)
	return w
}

func TestAReleasedAddressIsRecorded(t *testing.T) {
	w := released(t)
	same(t, w.syncText(KindAddressHistory, "blue"), "get networks blue\ncreate addresshistories blue-0")
	w.catchUp()
	records := stored[*v1.AddressHistory](w, "blue-0").Spec.Records
	if len(records) != 1 || records[0].Pod != "a" || records[0].PodUID != "uid-of-a" || records[0].Node != "n1" || records[0].Gap {
		t.Errorf("records %v", records)
	}
	w.later(time.Hour)
	same(t, w.syncText(KindAddressHistory, "blue"), "")
}

// A refusal loses no record, and an event reports it.
func TestARefusedHistoryIsWrittenLater(t *testing.T) {
	w := released(t)
	w.refuse = refusing("create addresshistories", quota)
	if calls, want := w.syncText(KindAddressHistory, "blue"), "event on blue: Warning FailedWrite: exceeded quota"; !strings.Contains(calls, want) {
		t.Errorf("%s\nlacks %q", calls, want)
	}
	w.refuse = nil
	w.later(time.Second)
	same(t, w.syncText(KindAddressHistory, "blue"), "get networks blue\ncreate addresshistories blue-0")
	same(t, stored[*v1.AddressHistory](w, "blue-0").Spec.Records[0].Pod, "a")
}

// The first version of an AddressBlock that the watch shows counts, even if a sync of the Network
// takes an address back before the first sync of the history.
func TestTheFirstSyncOfAHistoryKnowsTheFirstVersion(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"))
	block := stored[*v1.AddressBlock](w, "blue-10.1.0.0")
	w.keysFor(block.DeepCopy())
	block.Spec.Entries = nil
	w.change(block)
	w.catchUp()
	same(t, w.syncText(KindAddressHistory, "blue"), "")
	w.later(history.EndsEvery)
	same(t, w.syncText(KindAddressHistory, "blue"), "get networks blue\ncreate addresshistories blue-0")
	same(t, stored[*v1.AddressHistory](w, "blue-0").Spec.Records[0].Pod, "a")
}

// Before the first sync, another controller may have made and recorded the changes. The last
// version counts.
func TestNothingIsRecordedThatHappenedBeforeTheFirstSync(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"))
	block := stored[*v1.AddressBlock](w, "blue-10.1.0.0")
	w.keysFor(block.DeepCopy())
	block.Spec.Entries = nil
	w.change(block)
	w.catchUp()
	w.keysFor(block.DeepCopy())
	same(t, w.syncText(KindAddressHistory, "blue"), "")
	w.later(history.EndsEvery)
	same(t, w.syncText(KindAddressHistory, "blue"), "")
}

// The last sync before the stop may have ended a tenure, and the cache shows its write a moment later.
func TestTheStopWaitsForTheLastWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"))
		same(t, w.syncText(KindAddressHistory, "blue"), "")
		w.later(history.HoldersEvery)
		same(t, w.syncText(KindAddressHistory, "blue"), "get networks blue\ncreate addresshistories blue-0")
		w.catchUp()
		if calls := w.syncText(KindNetwork, "blue"); !strings.Contains(calls, "patch addressblocks blue-10.1.0.0") {
			t.Fatalf("want the end of a tenure, got\n%s", calls)
		}
		time.AfterFunc(2*finishPause, func() { w.catchUp() })
		w.later(history.WritesEvery)
		w.r.Finish(t.Context())
		if records := stored[*v1.AddressHistory](w, "blue-0").Spec.Records; len(records) != 1 || records[0].Pod != "a" {
			t.Errorf("the records are %v", records)
		}
	})
}

// A controller that stops does not wait for more records.
func TestTheLastRecordsAreWrittenAtTheStop(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"))
	same(t, w.syncText(KindAddressHistory, "blue"), "")
	block := stored[*v1.AddressBlock](w, "blue-10.1.0.0")
	block.Spec.Entries = nil
	w.change(block)
	w.catchUp()
	same(t, w.syncText(KindAddressHistory, "blue"), "")
	w.later(history.WritesEvery)
	w.r.Finish(t.Context())
	same(t, stored[*v1.AddressHistory](w, "blue-0").Spec.Records[0].Pod, "a")
}
