package history

import (
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Diff decides which write the AddressHistories of one Network need. First match wins:
//
//	no Network with this name   delete those without an owner; the garbage collector deletes the others
//	the Network is terminating  nothing
//	limit is 0                  delete them
//	those of a former Network   delete them; the next view shows that their names are free
//	there were enough writes    wait
//	too many or too old records delete the oldest AddressHistory
//	else                        write the records, and the checksum of the holders
func Diff(s State) Plan {
	switch {
	case s.Network == nil:
		return s.remove("its Network is gone", func(h *v1.AddressHistory) bool { return metav1.GetControllerOfNoCopy(h) == nil })
	case s.Network.DeletionTimestamp != nil:
		return Plan{}
	}
	limit, age := Bounds(s.Network)
	if limit == 0 {
		return s.remove("the Network keeps no history", func(*v1.AddressHistory) bool { return true })
	}
	if p := s.remove("it does not belong to the Network", func(h *v1.AddressHistory) bool { return !metav1.IsControlledBy(h, s.Network) }); !p.Empty() {
		p.Seen, p.Written = s.Seen, s.Seen
		return p
	}
	own := Sorted(s.Network, s.Histories)
	seen := s.seen(own).bounded(limit)
	at, due := seen.next(s, own, age, limit)
	if !due {
		p := Plan{Seen: seen, Written: seen}
		if !at.IsZero() {
			p.RequeueAfter = max(at.Sub(s.Now), time.Millisecond)
		}
		return p
	}
	failed, written := *seen, *seen
	failed.wrote, written.wrote = s.Now, s.Now // its answer may be lost
	p := Plan{Seen: &failed, Written: &written, RequeueAfter: WritesEvery}
	if oldest := surplus(own, age, limit, s.Now); oldest != nil {
		p.Delete = []plan.Deletion{plan.Delete(oldest, "its records are too many or too old")}
		return p
	}
	s.write(&p, &written, own, age, limit)
	if s.Stopping && !written.Unwritten() {
		p.RequeueAfter = 0
	}
	return p
}

func (s State) remove(reason string, which func(*v1.AddressHistory) bool) (p Plan) {
	for _, h := range s.Histories {
		if which(h) && h.DeletionTimestamp == nil {
			p.Delete = append(p.Delete, plan.Delete(h, reason))
		}
	}
	p.Confirm = len(p.Delete) > 0
	return p
}

// seen returns the memory after this sync, before its write. The first sync finds the gaps in
// the AddressHistories.
func (s State) seen(own []*v1.AddressHistory) *Seen {
	was := s.Seen
	if was == nil || was.network != s.Network.UID {
		was = s.begin(own)
	}
	is := s.look(was)
	if len(own) > 0 {
		newest := own[len(own)-1]
		is.newest = max(is.newest, number(newest))
		if newest.Spec.Through.After(is.since) {
			is.since = newest.Spec.Through.Time
		}
	}
	is.ended = slices.DeleteFunc(slices.Clone(is.ended), func(r v1.AddressRecord) bool { return recorded(own, r) })
	if len(is.ended) == 0 {
		is.began = time.Time{}
	} else if is.began.IsZero() {
		is.began = s.Now
	}
	held, versions := is.checksums()
	deleted := is.newest >= 0 && (len(own) == 0 || number(own[len(own)-1]) < is.newest) // by hand: the next one shows the gap
	if held == told(own) && !deleted {
		is.bound = time.Time{}
	} else if is.bound.IsZero() {
		is.bound = s.Now
	}
	is.moved = len(own) > 0 && versions != own[len(own)-1].Spec.Blocks
	return is
}

// told is the checksum of the holders in the newest AddressHistory.
func told(own []*v1.AddressHistory) string {
	if len(own) == 0 {
		return text(0)
	}
	return own[len(own)-1].Spec.Holders
}

// recorded says whether one of the two newest AddressHistories has the record: the answer to
// its write was lost.
func recorded(own []*v1.AddressHistory, r v1.AddressRecord) bool {
	return anyRecord(own[max(0, len(own)-2):], func(is v1.AddressRecord) bool {
		same := is.PodUID == r.PodUID || is.PodUID == "" || r.PodUID == "" // another controller saw only its end
		return same && sameHolder(is, r) && is.Gap == r.Gap && is.Until.Equal(&r.Until)
	})
}

// begin is the memory before the first sync: the first versions of the AddressBlocks. If they
// have changed since the newest AddressHistory was written, records may be missing.
func (s State) begin(own []*v1.AddressHistory) *Seen {
	first, blocks := s, map[string]*v1.AddressBlock{}
	for _, b := range s.Blocks {
		blocks[b.Name] = b
	}
	for name, versions := range s.Versions {
		if len(versions) > 0 {
			blocks[name] = versions[0]
		}
	}
	first.Blocks, first.Versions = slices.SortedFunc(maps.Values(blocks), plan.ByName), nil
	is := first.look(&Seen{since: s.Now, newest: -1})
	if len(own) == 0 {
		return is
	}
	newest := own[len(own)-1]
	held, versions := is.checksums()
	if versions == newest.Spec.Blocks {
		return is
	}
	from := metav1.NewTime(newest.Spec.Through.Add(-ViewAge))
	if first := own[0].Spec.Since; from.Before(&first) {
		from = first
	}
	_, age := Bounds(s.Network)
	var missing []v1.AddressRecord
	gap := false
	for _, b := range first.Blocks {
		if is.blocks[b.Name] == nil {
			continue
		}
		for _, e := range b.Spec.Entries {
			r := passed(e)
			same := func(is v1.AddressRecord) bool { return sameHolder(is, r) }
			ends := func(is v1.AddressRecord) bool { return sameHolder(is, r) && is.Until.Equal(&r.Until) }
			if e.State == v1.AddressBound || e.Since.Before(&from) || anyRecord(own, ends) {
				continue
			}
			gap = true
			// The address of a replica also rests from the moment at which its reservation ended. An old record would stay
			// as long as the gap.
			known := e.State == v1.AddressReserved || e.Owner == (v1.AddressOwner{}) || !anyRecord(own, same)
			if known && e.Since.Add(age/4).After(s.Now) {
				missing = append(missing, r)
			}
		}
	}
	rest := time.Duration(ptr.Deref(s.Network.Spec.ReuseDelaySeconds, 60)) * time.Second
	// While an address rests, the AddressBlock shows its last pod. If it rests for a shorter time
	// than a record may wait, any change of the AddressBlocks may be a lost record.
	if gap || held != newest.Spec.Holders || rest < 2*EndsEvery && versions != newest.Spec.Blocks {
		until := metav1.NewTime(s.Now.Truncate(time.Second))
		is.ended = append([]v1.AddressRecord{{Gap: true, From: &from, Until: until}}, missing...)
		slices.SortStableFunc(is.ended, byEnd)
	}
	return is
}

// sameHolder compares the holders of two tenures, of which the beginning may not be known.
func sameHolder(a, b v1.AddressRecord) bool { return a.Address == b.Address && a.Pod == b.Pod }

func anyRecord(all []*v1.AddressHistory, is func(v1.AddressRecord) bool) bool {
	return slices.ContainsFunc(all, func(h *v1.AddressHistory) bool { return slices.ContainsFunc(h.Spec.Records, is) })
}

// bounded has at most limit records to write. A gap replaces the others: the API server refused
// them for too long.
func (s *Seen) bounded(limit int) *Seen {
	if len(s.ended) <= limit+1 {
		return s
	}
	is, dropped := *s, s.ended[:len(s.ended)-limit]
	from := metav1.NewTime(s.since.Truncate(time.Second))
	for _, r := range dropped {
		begin := r.Until
		if r.Gap {
			begin = *r.From
		}
		if begin.Before(&from) {
			from = begin
		}
	}
	is.ended = append([]v1.AddressRecord{{Gap: true, From: &from, Until: dropped[len(dropped)-1].Until}}, s.ended[len(dropped):]...)
	return &is
}

// Unwritten says whether the newest AddressHistory lacks something that the next controller needs.
func (s *Seen) Unwritten() bool {
	return s != nil && (len(s.ended) > 0 || !s.bound.IsZero() || s.moved)
}

// next is the time of the next write; zero: never. due: it is now.
func (s *Seen) next(state State, own []*v1.AddressHistory, age time.Duration, limit int) (at time.Time, due bool) {
	now := state.Now
	soonest := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	switch {
	case state.Stopping && s.Unwritten():
		soonest(now)
	case len(s.ended) >= room(limit):
		soonest(s.began)
	case len(s.ended) > 0:
		soonest(s.began.Add(EndsEvery))
	case !s.bound.IsZero():
		soonest(s.bound.Add(HoldersEvery))
	}
	if surplus(own, age, limit, now) != nil {
		soonest(now)
	}
	for _, h := range own {
		if end, any := expires(h, age); any {
			soonest(end)
		}
	}
	if at.IsZero() {
		return at, false
	}
	if paced := s.wrote.Add(WritesEvery); at.Before(paced) {
		at = paced
	}
	return at, !at.After(now)
}

// surplus is the oldest AddressHistory, if it must be deleted. The newest one stays: it has the
// checksum.
func surplus(own []*v1.AddressHistory, age time.Duration, limit int, now time.Time) *v1.AddressHistory {
	records := 0
	for _, h := range own {
		records += len(h.Spec.Records)
	}
	if len(own) < 2 {
		return nil
	}
	if end, any := expires(own[0], age); !any || !end.After(now) || records > limit {
		return own[0]
	}
	return nil
}

// write adds the records that have room to the newest AddressHistory, or to a new one.
func (s State) write(p *Plan, written *Seen, own []*v1.AddressHistory, age time.Duration, limit int) {
	var into, was *v1.AddressHistory
	if len(own) > 0 {
		was = own[len(own)-1]
		into = was.DeepCopy()
		if end, any := expires(into, age); any && !end.After(s.Now) {
			into.Spec.Records, into.Spec.Since = []v1.AddressRecord{}, was.Spec.Through
		}
	}
	if into == nil || len(written.ended) > 0 && closed(into, age, limit, s.Now) || number(into) < written.newest {
		was, into = nil, s.create(own, written)
		written.newest++
	}
	count := min(len(written.ended), max(0, room(limit)-len(into.Spec.Records)))
	into.Spec.Records = append(into.Spec.Records, written.ended[:count]...)
	into.Spec.Through = metav1.NewTime(s.Now.Truncate(time.Second))
	into.Spec.Holders, into.Spec.Blocks = written.checksums()
	if count < len(written.ended) { // a crash would lose the rest
		into.Spec.Through, into.Spec.Holders, into.Spec.Blocks = written.ended[count].Until, "", ""
		for _, r := range written.ended[count:] {
			if r.Gap && r.From.Before(&into.Spec.Through) {
				into.Spec.Through = *r.From
			}
		}
	}
	written.ended, written.began, written.bound = written.ended[count:], time.Time{}, time.Time{}
	written.since, written.moved = s.Now, false
	if was == nil {
		p.Create, p.Confirm = into, true
		return
	}
	p.Update = &plan.Update[*v1.AddressHistory]{Was: was, Object: into, Reason: "add records"}
	if count == 0 {
		p.Update.Reason = "update the checksum"
	}
}

// closed says whether an AddressHistory takes no more records: it is full, or its records would
// differ too much in age.
func closed(h *v1.AddressHistory, age time.Duration, limit int, now time.Time) bool {
	records := h.Spec.Records
	return len(records) > 0 && (len(records) >= room(limit) || !records[0].Until.Add(age/4).After(now))
}

// create returns the AddressHistory with the next number. It begins where the last one ends, or
// where one ended that was deleted by hand.
func (s State) create(own []*v1.AddressHistory, seen *Seen) *v1.AddressHistory {
	next, since := seen.newest+1, metav1.NewTime(seen.since.Truncate(time.Second))
	if len(own) > 0 && number(own[len(own)-1]) == seen.newest {
		last := own[len(own)-1]
		since = last.Spec.Through
		for _, r := range last.Spec.Records {
			if since.Before(&r.Until) { // it was written while others with an earlier end were not
				since = r.Until
			}
		}
	}
	return &v1.AddressHistory{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-" + strconv.Itoa(next), Labels: map[string]string{v1.NetworkLabel: s.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.Network, schema.GroupVersion(v1.GroupVersion).WithKind("Network"))},
		},
		Spec: v1.AddressHistorySpec{Since: since, Records: []v1.AddressRecord{}},
	}
}
