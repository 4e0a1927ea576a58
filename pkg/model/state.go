package model

import (
	"cmp"
	"encoding/binary"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
)

// Key is what a sync is about, in the one namespace there is.
type Key struct{ Kind, Name string }

func (k Key) String() string { return k.Kind + " " + k.Name }

// Memory is what a controller remembers between syncs, and loses when it crashes.
type Memory struct {
	Wrote   []Wrote
	Deleted []Deleted
	Found   []*corev1.Pod
}

// Wrote is a write that a cache may not show yet.
type Wrote struct {
	Key      Key
	Resource string
	Version  string
}

// Deleted is an object that a cache may still show.
type Deleted struct {
	Key            Key
	Resource, Path string
	UID            types.UID
}

// state of everything: the API server, two controllers, and which faults and edits
// are left.
type state struct {
	server  [kinds][]*object // in name order
	last    [kinds]uint16    // resourceVersion of the last event of the kind
	uids    uint16           // UIDs given
	control []control
	ticks   uint8
	left    []uint8 // of each fault and edit of the configuration
	// kept is the address that a replica of the name published last.
	kept []keptAddress
}

type keptAddress struct{ pod, address string }

// control is a controller: its caches, what it remembers, and the sync under way.
// Its caches change when a sync starts, and only then: what they showed meanwhile,
// nobody has looked at.
type control struct {
	cache  [kinds][]*object
	at     [kinds]uint16 // how far the cache has come
	memory memory
	sync   *syncing
}

// syncing is a sync under way, as far as it got: a sync is a function of its view
// and of the answers to its calls, so these are all of it.
type syncing struct {
	key     uint8 // index of the configuration's keys
	ticks   uint8 // when it began
	answers []answer
}

// answer to a call.
type answer struct {
	to      string // which call, without numbers
	err     failure
	objects []*object
}

type failure uint8

const (
	none failure = iota
	notFound
	conflict
	alreadyExists
	otherUID
	invalid
	timeout
)

func (f failure) String() string {
	return [...]string{"", "NotFound", "Conflict", "AlreadyExists", "Invalid (another UID)", "Invalid", "Timeout"}[f]
}

// memory is Memory with its numbers in sight.
type memory struct {
	wrote   []wrote
	deleted []deleted
	found   []*object
}

type wrote struct {
	key     Key
	kind    Kind
	version uint16
}

type deleted struct {
	key  Key
	kind Kind
	path string
	uid  uint16
}

func (m memory) empty() bool { return len(m.wrote)+len(m.deleted)+len(m.found) == 0 }

func (s *state) clone() *state {
	next := *s
	for k := range next.server {
		next.server[k] = slices.Clip(next.server[k])
	}
	next.control = slices.Clone(s.control)
	next.left = slices.Clone(s.left)
	next.kept = slices.Clone(s.kept)
	return &next
}

func (s *state) find(k Kind, name string) (int, *object) {
	for i, o := range s.server[k] {
		if o.name == name {
			return i, o
		}
	}
	return -1, nil
}

// put stores an object, new or changed.
func (s *state) put(o *object) {
	list := slices.Clone(s.server[o.kind])
	if i, old := s.find(o.kind, o.name); old != nil {
		list[i] = o
	} else {
		list = append(list, o)
		slices.SortFunc(list, func(a, b *object) int { return cmp.Compare(a.name, b.name) })
	}
	s.server[o.kind] = list
}

func (s *state) remove(o *object) {
	s.server[o.kind] = slices.DeleteFunc(slices.Clone(s.server[o.kind]), func(x *object) bool { return x.name == o.name })
}

func (s *state) nextVersion(k Kind) uint16 {
	s.last[k]++
	return s.last[k]
}

// shown is what a cache of a kind shows of the server.
func (s *state) shown(k Kind, watched func(*object) bool) []*object {
	if k != Pods {
		return s.server[k]
	}
	for i, o := range s.server[k] {
		if !watched(o) {
			list := slices.Clone(s.server[k][:i])
			for _, o := range s.server[k][i:] {
				if watched(o) {
					list = append(list, o)
				}
			}
			return list
		}
	}
	return s.server[k]
}

// canonical numbers everything anew, so that states that mean the same are equal:
// resourceVersions by rank within their kind, UIDs in the order in which they are
// met. Of two states that differ in which controller is which, one stands for both.
func (m *machine) canonical(s *state) (is *state, text string, swapped bool) {
	m.forget(s)
	one, text := m.numbered(s)
	if len(s.control) == 2 {
		other := s.clone()
		other.control[0], other.control[1] = s.control[1], s.control[0]
		if other, otherText := m.numbered(other); otherText < text {
			return other, otherText, true
		}
	}
	return one, text, false
}

// forget drops what has no consequence any more: writes that the caches show, and
// how far a cache has come that nothing is compared with.
func (m *machine) forget(s *state) {
	for c := range s.control {
		ctl := &s.control[c]
		for k := range kinds {
			if ctl.sync == nil && s.left[oldViewsLeft] == 0 && ctl.at[k] != s.last[k] {
				ctl.cache[k], ctl.at[k] = s.shown(k, m.watched), s.last[k]
			}
			if ctl.sync == nil && ctl.at[k] != s.last[k] && slices.Equal(ctl.cache[k], s.shown(k, m.watched)) {
				ctl.at[k] = s.last[k]
			}
		}
		if !ctl.memory.empty() && ctl.sync == nil {
			ctl.memory.wrote = slices.DeleteFunc(slices.Clone(ctl.memory.wrote), func(w wrote) bool { return w.version <= ctl.at[w.kind] })
			ctl.memory.deleted = slices.DeleteFunc(slices.Clone(ctl.memory.deleted), func(d deleted) bool {
				return !slices.ContainsFunc(ctl.cache[d.kind], func(o *object) bool {
					return o.uid == d.uid && "default/"+o.name == d.path && o.value.GetDeletionTimestamp() == nil
				})
			})
		}
		if ctl.memory.empty() {
			for k := range kinds {
				if ctl.at[k] != s.last[k] {
					ctl.at[k] = 0
				}
			}
		}
	}
}

func (m *machine) numbered(s *state) (*state, string) {
	n := m.numbering(s)
	next := *s
	renumber := func(list []*object) []*object {
		for i, o := range list {
			if is := m.objects.renumber(o, n); is != o {
				out := slices.Clone(list)
				for j := i; j < len(out); j++ {
					out[j] = m.objects.renumber(out[j], n)
				}
				return out
			}
		}
		return list
	}
	for k := range kinds {
		next.server[k] = renumber(s.server[k])
		next.last[k] = n.versions[k][s.last[k]]
	}
	next.uids = uint16(0)
	for _, u := range n.uids {
		next.uids = max(next.uids, u)
	}
	next.control = make([]control, len(s.control))
	for c := range s.control {
		was, is := &s.control[c], &next.control[c]
		for k := range kinds {
			is.cache[k] = renumber(was.cache[k])
			is.at[k] = n.versions[k][was.at[k]]
		}
		for _, w := range was.memory.wrote {
			w.version = n.versions[w.kind][w.version]
			is.memory.wrote = append(is.memory.wrote, w)
		}
		for _, d := range was.memory.deleted {
			d.uid = n.uids[d.uid]
			is.memory.deleted = append(is.memory.deleted, d)
		}
		is.memory.found = renumber(was.memory.found)
		if was.sync != nil {
			is.sync = &syncing{key: was.sync.key, ticks: was.sync.ticks, answers: make([]answer, len(was.sync.answers))}
			for i, a := range was.sync.answers {
				is.sync.answers[i] = answer{a.to, a.err, renumber(a.objects)}
			}
		}
	}
	return &next, m.encode(&next)
}

// numbering ranks the resourceVersions of each kind that are anywhere in the state,
// and numbers the UIDs in the order in which they are met.
func (m *machine) numbering(s *state) *numbering {
	n := &m.scratch
	for k := range kinds {
		n.versions[k] = resized(n.versions[k], int(s.last[k])+1)
	}
	n.uids = resized(n.uids, int(s.uids)+1)
	const present = 1
	uids := uint16(0)
	see := func(o *object) {
		for i, h := range o.shape.holes {
			switch number := o.numbers[i]; {
			case h.version:
				n.versions[o.kind][number] = present
			case number != 0 && n.uids[number] == 0:
				uids++
				n.uids[number] = uids
			}
		}
	}
	for k := range kinds {
		for _, o := range s.server[k] {
			see(o)
		}
		n.versions[k][s.last[k]] = present
	}
	for c := range s.control {
		ctl := &s.control[c]
		for k := range kinds {
			for _, o := range ctl.cache[k] {
				see(o)
			}
			n.versions[k][ctl.at[k]] = present
		}
		if ctl.sync != nil {
			for _, a := range ctl.sync.answers {
				for _, o := range a.objects {
					see(o)
				}
			}
		}
		for _, w := range ctl.memory.wrote {
			n.versions[w.kind][w.version] = present
		}
		for _, d := range ctl.memory.deleted {
			if n.uids[d.uid] == 0 {
				uids++
				n.uids[d.uid] = uids
			}
		}
		for _, o := range ctl.memory.found {
			see(o)
		}
	}
	for k := range kinds {
		rank := uint16(0)
		n.versions[k][0] = 0
		for number := 1; number < len(n.versions[k]); number++ {
			if n.versions[k][number] == present {
				rank++
				n.versions[k][number] = rank
			}
		}
	}
	return n
}

func resized(list []uint16, size int) []uint16 {
	list = slices.Grow(list[:0], size)[:size]
	clear(list)
	return list
}

// encode is one text for one state.
func (m *machine) encode(s *state) string {
	b := m.buffer[:0]
	number := func(n uint16) { b = binary.LittleEndian.AppendUint16(b, n) }
	list := func(objects []*object) {
		b = append(b, byte(len(objects)))
		for _, o := range objects {
			b = binary.LittleEndian.AppendUint32(b, o.id)
		}
	}
	for k := range kinds {
		list(s.server[k])
		number(s.last[k])
	}
	for c := range s.control {
		ctl := &s.control[c]
		for k := range kinds {
			if ctl.at[k] == s.last[k] {
				b = append(b, 255)
				continue
			}
			number(ctl.at[k])
			list(ctl.cache[k])
		}
		b = m.encodeMemory(b, ctl.memory)
		if ctl.sync == nil {
			b = append(b, 255)
			continue
		}
		b = append(b, ctl.sync.key, ctl.sync.ticks, byte(len(ctl.sync.answers)))
		for _, a := range ctl.sync.answers {
			b = append(b, byte(a.err))
			list(a.objects)
		}
	}
	b = append(b, s.ticks)
	b = append(b, s.left...)
	for _, k := range s.kept {
		b = append(b, k.pod...)
		b = append(b, '=')
		b = append(b, k.address...)
	}
	m.buffer = b
	return string(b)
}

func (m *machine) encodeMemory(b []byte, mem memory) []byte {
	b = append(b, byte(len(mem.wrote)), byte(len(mem.deleted)), byte(len(mem.found)))
	for _, w := range mem.wrote {
		b = append(b, w.key.String()...)
		b = append(b, byte(w.kind))
		b = binary.LittleEndian.AppendUint16(b, w.version)
	}
	for _, d := range mem.deleted {
		b = append(b, d.key.String()...)
		b = append(b, byte(d.kind))
		b = append(b, d.path...)
		b = binary.LittleEndian.AppendUint16(b, d.uid)
	}
	for _, o := range mem.found {
		b = binary.LittleEndian.AppendUint32(b, o.id)
	}
	return b
}
