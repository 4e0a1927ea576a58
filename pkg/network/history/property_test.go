package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// world is one Network whose addresses change hands, and a controller that is killed now and
// then.
type world struct {
	dice      *rand.Rand
	now       time.Time
	network   *v1.Network
	block     *v1.AddressBlock
	histories []*v1.AddressHistory
	stopping  bool
	pods      int
	version   int
	ended     []spec.Tenure

	seen     *Seen
	versions map[string][]*v1.AddressBlock
	next     time.Time // when the key comes again; zero: never
	// writes are the times of writes of this run.
	writes []time.Time
	trace  []string
}

func newWorld(dice *rand.Rand) *world {
	n := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
	n.Spec.ReuseDelaySeconds = ptr.To(chance.Pick[int32](dice, 0, 1, 60))
	n.Spec.AddressHistory = &v1.AddressHistoryBounds{Limit: ptr.To(chance.Pick[int32](dice, 1, 3, 10, 1000)), MaxAgeSeconds: ptr.To(chance.Pick[int32](dice, 60, 3600, 2592000))}
	w := &world{dice: dice, now: time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC), network: n}
	w.block = &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-" + ipam.BlockName("x", ipam.Block(address(0)))[2:], UID: "b"},
		Spec: v1.AddressBlockSpec{Network: "blue", NetworkUID: n.UID}}
	w.start()
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, w.now.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// start begins a run of the controller, which lists the AddressBlocks.
func (w *world) start() {
	w.seen, w.versions, w.next, w.writes = nil, map[string][]*v1.AddressBlock{w.block.Name: {w.block}}, w.now, nil
}

// change makes some addresses change hands in one write.
func (w *world) change() {
	b, since := w.block.DeepCopy(), metav1.NewTime(w.now.Truncate(time.Second))
	rest := time.Duration(*w.network.Spec.ReuseDelaySeconds) * time.Second
	for range 1 + w.dice.IntN(4) {
		a := address(w.dice.IntN(4)).String()
		i := slices.IndexFunc(b.Spec.Entries, func(e v1.AddressEntry) bool { return e.Address == a })
		w.pods++
		bound := v1.AddressEntry{Address: a, Pod: chance.Pick(w.dice, "web-0", "web-1"), PodUID: types.UID(strconv.Itoa(w.pods)), State: v1.AddressBound, Since: since}
		switch {
		case i < 0:
			b.Spec.Entries = append(b.Spec.Entries, bound)
		case b.Spec.Entries[i].State == v1.AddressBound && chance.One(w.dice, 3):
			b.Spec.Entries[i] = bound
		case b.Spec.Entries[i].State == v1.AddressBound && rest > 0:
			b.Spec.Entries[i].State, b.Spec.Entries[i].PodUID, b.Spec.Entries[i].Since = chance.Pick(w.dice, v1.AddressResting, v1.AddressReserved), "", since
		case b.Spec.Entries[i].State == v1.AddressReserved && chance.One(w.dice, 2): // its owner is gone
			b.Spec.Entries[i].State, b.Spec.Entries[i].Since = v1.AddressResting, since
		case b.Spec.Entries[i].State == v1.AddressBound || w.now.Sub(b.Spec.Entries[i].Since.Time) >= rest:
			b.Spec.Entries = slices.Delete(b.Spec.Entries, i, i+1)
		default: // the same pod comes back
			bound.Pod = b.Spec.Entries[i].Pod
			b.Spec.Entries[i] = bound
		}
	}
	w.version++
	b.ResourceVersion, b.Generation = strconv.Itoa(w.version), int64(w.version)
	w.versions[b.Name] = append(w.versions[b.Name], b)
	w.ended = append(w.ended, spec.Ended(w.block, b, w.now)...)
	w.block = b
	w.note("%v", b.Spec.Entries)
}

func (w *world) state() State {
	return State{Now: w.now, Namespace: "default", Name: "blue", Network: w.network, Histories: w.histories, Blocks: []*v1.AddressBlock{w.block}, Seen: w.seen, Versions: w.versions, Stopping: w.stopping}
}

// sync syncs once. The answer to the write may be lost.
func (w *world) sync() {
	p := Diff(w.state())
	w.note("%s", p)
	w.seen, w.versions, w.next = p.Seen, map[string][]*v1.AddressBlock{}, time.Time{}
	if p.RequeueAfter > 0 {
		w.next = w.now.Add(p.RequeueAfter)
	}
	if p.Empty() {
		return
	}
	if chance.One(w.dice, 5) {
		w.note("refused")
		w.next = w.now.Add(time.Second)
		return
	}
	w.writes = append(w.writes, w.now)
	for _, d := range p.Delete {
		w.histories = slices.DeleteFunc(slices.Clone(w.histories), func(h *v1.AddressHistory) bool { return h.Name == d.Name })
	}
	if p.Update != nil {
		w.histories[slices.Index(w.histories, p.Update.Was)] = p.Update.Object
	}
	if p.Create != nil {
		w.histories = append(w.histories, p.Create)
	}
	if chance.One(w.dice, 5) {
		w.note("the answer is lost")
	} else {
		w.seen = p.Written
	}
}

// stop is a stop of the controller, which makes its last writes. The next controller finds no gap.
func (w *world) stop(t *testing.T) {
	t.Helper()
	w.note("stopping")
	w.stopping = true
	w.sync()
	for !w.next.IsZero() && w.next.Sub(w.now) <= WritesEvery {
		w.now = w.next
		w.sync()
	}
	w.stopping = false
	w.start()
	if ended := Diff(w.state()).Seen.ended; len(ended) > 0 {
		t.Fatalf("the next controller records %v\n%s", ended, lines(w.trace))
	}
}

// pass lets time pass, with the syncs in it.
func (w *world) pass(d time.Duration) {
	end := w.now.Add(d)
	for !w.next.IsZero() && !w.next.After(end) {
		if w.next.After(w.now) {
			w.now = w.next
		}
		w.sync()
	}
	w.now = end
}

func (w *world) check(t *testing.T) {
	t.Helper()
	why := spec.HistoryDone(&spec.Cluster{Now: w.now, Histories: w.histories}, w.network, w.ended)
	if why != "" {
		t.Fatalf("%s\n%s", why, lines(w.trace))
	}
	for i := 1; i < len(w.writes); i++ {
		if d := w.writes[i].Sub(w.writes[i-1]); d < WritesEvery {
			t.Fatalf("two writes within %s\n%s", d, lines(w.trace))
		}
	}
}

func lines(trace []string) (text string) {
	for _, line := range trace {
		text += line + "\n"
	}
	return text
}

// Addresses change hands, writes fail, answers get lost, and the controller is killed at any
// moment. The history never lacks a record without a gap, and says nothing wrong.
func TestNothingIsMissingWithoutAGap(t *testing.T) {
	chance.ForSeeds(t, 3000, func(t *testing.T, dice *rand.Rand) {
		w := newWorld(dice)
		for range 1 + dice.IntN(40) {
			w.pass(chance.Pick(dice, 0, 300*time.Millisecond, 2*time.Second, 9*time.Second, 70*time.Second, 20*time.Minute))
			switch {
			case chance.One(dice, 8):
				w.note("killed")
				w.start()
			case chance.One(dice, 8):
				w.stop(t)
			case chance.One(dice, 40) && len(w.histories) > 0:
				w.note("deleted by hand")
				at := dice.IntN(len(w.histories))
				w.histories = slices.Delete(slices.Clone(w.histories), at, at+1)
				w.next = w.now
			default:
				for range 1 + dice.IntN(2) {
					w.change()
				}
				w.next = w.now
			}
		}
		w.pass(5 * time.Minute)
		w.check(t)
		before := len(w.writes)
		w.next = w.now
		w.pass(2 * time.Minute) // an event
		if idle := len(w.writes) - before; idle > 0 && *w.network.Spec.AddressHistory.MaxAgeSeconds > 3600 {
			t.Fatalf("%d writes while nothing changes\n%s", idle, lines(w.trace))
		}
	})
}
