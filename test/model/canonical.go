package model

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// canonical renumbers a state, so states that mean the same become equal. resourceVersions
// become their rank within their kind, and UIDs their order of appearance. If two states
// differ only in the names of the controllers, one represents both.
func (m *machine) canonical(s *state) (is *state, text string, swapped bool) {
	if m.config.Numbered {
		return m.named(s)
	}
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

// forget drops data without consequences: writes that the caches show, and cache positions
// that nothing is compared with.
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
		ctl.forgetWrites()
		if ctl.memory.empty() {
			for k := range kinds {
				if ctl.at[k] != s.last[k] {
					ctl.at[k] = 0
				}
			}
		}
	}
}

func (ctl *control) forgetWrites() {
	if ctl.memory.empty() || ctl.sync != nil {
		return
	}
	ctl.memory.wrote = slices.DeleteFunc(slices.Clone(ctl.memory.wrote), func(w wrote) bool { return w.version <= ctl.at[w.kind] })
	ctl.memory.deleted = slices.DeleteFunc(slices.Clone(ctl.memory.deleted), func(d deleted) bool {
		return !slices.ContainsFunc(ctl.cache[d.kind], d.shownBy)
	})
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
			d.uid, d.version = n.uids[d.uid], n.versions[d.kind][d.version]
			is.memory.deleted = append(is.memory.deleted, d)
		}
		is.memory.found = renumber(was.memory.found)
		is.memory.over = n.over(was.memory.over)
		if was.sync != nil {
			is.sync = &syncing{key: was.sync.key, ticks: was.sync.ticks, answers: make([]answer, len(was.sync.answers))}
			for i, a := range was.sync.answers {
				is.sync.answers[i] = answer{a.to, a.err, renumber(a.objects)}
			}
		}
	}
	return &next, m.encode(&next)
}

// over returns the pods that another part of the state still names. Nothing will ask for
// the others.
func (n *numbering) over(was []over) (is []over) {
	for _, o := range was {
		if o.uid = n.uids[o.uid]; o.uid != 0 {
			is = append(is, o)
		}
	}
	slices.SortFunc(is, func(a, b over) int {
		return cmp.Or(cmp.Compare(a.key.String(), b.key.String()), cmp.Compare(a.pod, b.pod), cmp.Compare(a.uid, b.uid))
	})
	return is
}

// numbering ranks all resourceVersions of each kind in the state, and numbers the UIDs in
// the order in which they appear.
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
			n.versions[d.kind][d.version] = present
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

// encode returns a text that identifies a state.
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
		b = append(b, k.network...)
		b = k.address.AppendTo(b)
	}
	for _, o := range s.versions {
		b = binary.LittleEndian.AppendUint32(b, o.id)
	}
	for _, t := range s.ended {
		b = fmt.Append(b, t.Address, t.UID, t.Until.Unix())
	}
	m.buffer = b
	return string(b)
}

func (m *machine) encodeMemory(b []byte, mem memory) []byte {
	b = append(b, byte(len(mem.wrote)), byte(len(mem.deleted)), byte(len(mem.found)), byte(len(mem.over)))
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
		b = binary.LittleEndian.AppendUint16(b, d.version)
	}
	for _, o := range mem.found {
		b = binary.LittleEndian.AppendUint32(b, o.id)
	}
	if mem.history != nil {
		b = binary.LittleEndian.AppendUint32(b, mem.history.id)
	}
	for _, o := range mem.over {
		b = append(b, o.key.String()...)
		b = append(b, o.pod...)
		b = binary.LittleEndian.AppendUint16(b, o.uid)
	}
	return b
}
