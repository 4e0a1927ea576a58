package network

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/plan"
)

// Diff decides which writes one Network needs. It cannot fail: a spec that cannot be
// served becomes a condition.
func Diff(s State) Plan {
	v, neighbours := newView(s)
	var p Plan

	conflicts := v.writeBack(s.Pods)
	v.settle()
	waiting := v.waitingPods(s.Pods, neighbours)
	kept, exhausted := v.serve(waiting, neighbours)
	v.settleMoved()

	p.AddFinalizer = v.network != nil && !terminating(v.network) && !hasFinalizer(v.network)
	if p.Begin = v.begins(); p.Begin {
		p.Alive = v.alive()
	}
	p.Blocks = v.blockWrites(s.Namespace)
	p.RemoveFinalizer = terminating(v.network) && hasFinalizer(v.network) && v.allSealed()
	p.Waits = withEvents(append(v.conflictWaits(conflicts), v.waits(kept)...), s.Pods)
	p.Status, p.Events = v.status(exhausted)
	p.Reassigned = v.reassigned()
	p.MayWait = len(p.Blocks) > 0 && len(waiting) == 0 && len(p.Waits) == 0 && !p.AddFinalizer && !p.Begin && (p.Status == nil || p.statusMayWait(s)) &&
		!slices.ContainsFunc(p.Blocks, func(w BlockWrite) bool { return !w.TakesBack })
	p.RequeueAfter = v.nextChange(neighbours)
	if record := v.recordFirst(); record != nil && slices.ContainsFunc(p.Blocks, func(w BlockWrite) bool { return w.Binds }) {
		return Plan{AddFinalizer: p.AddFinalizer, Status: record} // the rest follows once the cache shows this write
	}
	return p.paced(s)
}

// paced is the plan without the parts that are held back.
func (p Plan) paced(s State) Plan {
	if s.ReleasesHeld > 0 && p.MayWait {
		return Plan{MayWait: true, RequeueAfter: plan.Soonest(p.RequeueAfter, s.ReleasesHeld)}
	}
	if s.NumbersHeld > 0 && p.statusMayWait(s) {
		p.Status, p.RequeueAfter = nil, plan.Soonest(p.RequeueAfter, s.NumbersHeld)
	}
	return p
}

// binds says whether the page has an entry that becomes Bound, or that is Bound and changes.
func (p *page) binds() bool {
	for _, is := range p.changed() {
		if is != nil && is.State == v1.AddressBound {
			return true
		}
	}
	return false
}

func hasFinalizer(o metav1.Object) bool {
	return slices.Contains(o.GetFinalizers(), v1.InUseFinalizer)
}

// allSealed says whether every AddressBlock of the Network was observed sealed. Then no
// address of it can be bound any more, not even by a controller with an old view.
func (v *view) allSealed() bool {
	return !slices.ContainsFunc(v.ledger.pages, func(p *page) bool {
		return p.ours && (p.block == nil || !p.block.Spec.Sealed)
	})
}

// blockWrites compares the working copy with the observed AddressBlocks.
func (v *view) blockWrites(namespace string) []BlockWrite {
	var writes []BlockWrite
	for _, p := range v.ledger.pages {
		if p.untouched() || v.awaits(p) > 0 {
			continue
		}
		w := BlockWrite{
			Seen: p.block, ConfirmOver: sortedRefs(p.confirmOver), Changes: p.changes(), Inherits: p.inherits,
			Fresh:    p.block == nil || len(p.block.Spec.Entries) == 0,
			Restored: orphaned(p.block),
		}
		switch {
		case p.block == nil:
			w.Verb, w.Block = Create, v.newBlock(namespace, p)
		case len(p.entries) == 0:
			verb, block, change := v.retire(p)
			if block == nil {
				continue
			}
			w.Verb, w.Block, w.Changes = verb, block, append(w.Changes, change)
		case len(w.Changes) > 0 || p.unguarded() || p.inherits || v.unowned(p):
			w.Verb, w.Block = Update, p.rewritten()
			if p.inherits {
				w.Changes = slices.Insert(w.Changes, 0, v.inherited(w.Block))
			}
			if p.inherits || v.unowned(p) {
				w.Block.OwnerReferences = append(w.Block.OwnerReferences, v.ownerOf())
				w.Changes = append(w.Changes, "add owner reference")
			}
			if p.unguarded() {
				w.Block.Finalizers = append(w.Block.Finalizers, v1.InUseFinalizer)
				w.Changes = append(w.Changes, "add finalizer")
			}
		default:
			continue
		}
		w.Binds = p.binds()
		w.TakesBack = w.Verb != Create && !v.goes(p) && !p.unguarded() && !w.Binds && !w.Restored
		writes = append(writes, w)
	}
	return writes
}

// rewritten is the AddressBlock with the desired entries.
func (p *page) rewritten() *v1.AddressBlock {
	block := *p.block
	block.Spec.Entries = p.apiEntries()
	p.block.ObjectMeta.DeepCopyInto(&block.ObjectMeta)
	return &block
}

// unguarded says that another client removed our finalizer from an AddressBlock in use.
// The AddressBlock could vanish then. The API server refuses a new finalizer once the
// AddressBlock is being deleted.
func (p *page) unguarded() bool {
	return p.block != nil && len(p.entries) > 0 && !hasFinalizer(p.block) && p.block.DeletionTimestamp == nil
}

// retire removes an empty AddressBlock, in up to three writes. While a terminating
// Network has our finalizer, its sealed AddressBlocks remain as tombstones. A controller
// with an old view then finds the name taken, and the AddressBlock refuses binds. First
// match wins:
//
//	not sealed, Network has our finalizer   seal it
//	not sealed                              seal it and remove our finalizer
//	sealed, Network has our finalizer       nothing yet
//	sealed, has our finalizer               remove our finalizer
//	sealed, not being deleted               delete it
func (v *view) retire(p *page) (Verb, *v1.AddressBlock, string) {
	tombstone := p.ours && terminating(v.network) && hasFinalizer(v.network)
	block := p.block.DeepCopy()
	block.Spec.Entries = []v1.AddressEntry{}
	letGo := func() {
		block.Finalizers = slices.DeleteFunc(block.Finalizers, func(f string) bool { return f == v1.InUseFinalizer })
	}
	switch {
	case !block.Spec.Sealed && tombstone:
		block.Spec.Sealed = true
		return Update, block, "seal"
	case !block.Spec.Sealed:
		block.Spec.Sealed = true
		letGo()
		return Update, block, "seal and remove finalizer"
	case tombstone:
		return "", nil, ""
	case hasFinalizer(block):
		letGo()
		return Update, block, "remove finalizer"
	case block.DeletionTimestamp == nil:
		return Delete, block, "empty and sealed"
	}
	return "", nil, ""
}

// retires says whether an AddressBlock is empty and sealed, and only we keep it.
func (p *page) retires() bool {
	return p.block != nil && p.block.Spec.Sealed &&
		!slices.ContainsFunc(p.block.Finalizers, func(f string) bool { return f != v1.InUseFinalizer })
}

func (v *view) newBlock(namespace string, p *page) *v1.AddressBlock {
	return &v1.AddressBlock{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespace,
			Name:            ipam.BlockName(v.name, p.prefix),
			Finalizers:      []string{v1.InUseFinalizer},
			OwnerReferences: []metav1.OwnerReference{v.ownerOf()},
		},
		Spec: v1.AddressBlockSpec{
			Network: v.name, NetworkUID: v.network.UID, CIDR: p.prefix.String(), Entries: p.apiEntries(),
		},
	}
}

func (p *page) apiEntries() []v1.AddressEntry {
	entries := make([]v1.AddressEntry, 0, len(p.entries))
	for _, e := range p.entries {
		entries = append(entries, *e.AddressEntry)
	}
	return entries
}

// changes has one text for each changed address, in address order.
func (p *page) changes() []string {
	changes, freed := slices.Clone(p.dropped), []string(nil)
	for was, is := range p.changed() {
		switch {
		case is == nil:
			freed = append(freed, fmt.Sprintf("free %s of %s", was.Address, was.Pod))
		case is.State == v1.AddressBound && was != nil && was.State == v1.AddressBound && was.PodUID == is.PodUID:
			changes = append(changes, fmt.Sprintf("pass %s of %s to %s %s", is.Address, is.Pod, is.Owner.Kind, is.Owner.Name))
		case is.State == v1.AddressBound:
			changes = append(changes, fmt.Sprintf("bind %s to %s", is.Address, PodRef{is.Pod, is.PodUID}))
		case is.State == v1.AddressReserved:
			changes = append(changes, fmt.Sprintf("reserve %s for %s", is.Address, is.Pod))
		default:
			changes = append(changes, fmt.Sprintf("rest %s of %s", is.Address, is.Pod))
		}
	}
	return append(changes, freed...)
}

// changed yields the entries that differ, in address order: the observed one and the desired one.
// One of them may be nil. It reads both lists once.
func (p *page) changed() iter.Seq2[*v1.AddressEntry, *v1.AddressEntry] {
	return func(yield func(was, is *v1.AddressEntry) bool) {
		for was, is := p.observed, p.entries; len(was)+len(is) > 0; {
			var a, b *v1.AddressEntry
			order := 0
			switch {
			case len(was) == 0:
				order = 1
			case len(is) == 0:
				order = -1
			default:
				order = was[0].addr.Compare(is[0].addr)
			}
			if order <= 0 {
				a, was = was[0].AddressEntry, was[1:]
			}
			if order >= 0 {
				b, is = is[0].AddressEntry, is[1:]
			}
			same := a == b || a != nil && b != nil && sameEntry(*a, *b)
			if !same && !yield(a, b) {
				return
			}
		}
	}
}

func sameEntry(a, b v1.AddressEntry) bool {
	return a.Address == b.Address && a.Pod == b.Pod && a.PodUID == b.PodUID && a.Owner == b.Owner &&
		a.State == b.State && a.Since.Equal(&b.Since)
}

func (v *view) conflictWaits(conflicts []conflict) []Wait {
	var waits []Wait
	for _, c := range conflicts {
		if told := boundCondition(c.pod); told != nil && told.Reason == ReasonAddressConflict {
			continue // perhaps from another Network; two Networks must not overwrite each other forever
		}
		waits = append(waits, v.wait(c.pod, refusal{ReasonAddressConflict,
			fmt.Sprintf("address %s of Network %q %s; recreate the pod", c.addr, v.name, c.why)})...)
	}
	return waits
}

// nextChange is the time until a resting address becomes free, or a restore ends, or the
// address of a scaled-down replica becomes available. While pods wait, it is also the
// time until a scaled-down or given-up address has rested. That address may be of this
// Network, or of a neighbour that keeps the pods waiting and whose own plan writes only a
// status then.
func (v *view) nextChange(neighbours map[string]*view) time.Duration {
	next := min(v.soonest(func(e *entry) bool { return e.State == v1.AddressResting }), v.restoreEnds(neighbours))
	if c := v.tally(); c.leaves > 0 {
		next = min(next, c.leavesFrom.Sub(v.now.Time))
	}
	waitFor := func(at *view) {
		if at.short {
			next = min(next, at.soonest(func(e *entry) bool { return (at.scaledAway(e) || at.awaited[e.addr]) && !at.rested(e) }))
		}
	}
	waitFor(v)
	for _, at := range neighbours {
		waitFor(at)
	}
	if next == never {
		return 0
	}
	return max(next, time.Second)
}

const never = time.Duration(math.MaxInt64)

// soonest is the time until the first of the entries has rested.
func (v *view) soonest(of func(*entry) bool) time.Duration {
	next := never
	for _, p := range v.ledger.pages {
		if p.quiet || v.awaits(p) > 0 {
			continue
		}
		for i := range p.entries {
			if e := &p.entries[i]; of(e) {
				next = min(next, e.Since.Add(v.delay).Sub(v.now.Time))
			}
		}
	}
	return next
}
