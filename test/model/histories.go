package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// The history of addresses has configurations of its own, because its AddressHistories have
// checksums of UIDs and resourceVersions: these numbers must stay. Users of the model take
// addresses and give them back in the place of the controller.

// History is the controller's memory about AddressHistories. Text identifies its content.
type History struct {
	Text  string
	Value any
}

// remembered is a History. Equal contents share one pointer.
type remembered struct {
	id uint32
	History
}

func (r *remembered) known() History {
	if r == nil {
		return History{}
	}
	return r.History
}

type histories map[string]*remembered

func (all histories) of(h History) *remembered {
	if h.Value == nil {
		return nil
	}
	r := all[h.Text]
	if r == nil {
		r = &remembered{uint32(len(all) + 1), h}
		all[h.Text] = r
	}
	return r
}

// lists delivers the first list of AddressBlocks, and watches the events since then.
func (m *machine) lists(ctl *control) { m.deliver(ctl, ctl.cache[Blocks], 0) }

func (m *machine) watches(s *state, ctl *control) { m.deliver(ctl, s.versions, ctl.at[Blocks]) }

func (m *machine) deliver(ctl *control, objects []*object, after uint16) {
	if !m.config.Numbered {
		return
	}
	var blocks []*v1.AddressBlock
	for _, o := range objects {
		if o.version > after {
			blocks = append(blocks, o.slim.(*v1.AddressBlock))
		}
	}
	m.controller.Remember(m.remembered(ctl.memory))
	m.controller.Watched(blocks)
	ctl.memory.history = m.histories.of(m.controller.Memory().History)
}

// named is canonical for states that keep their numbers.
func (m *machine) named(s *state) (is *state, text string, swapped bool) {
	oldest := s.last[Blocks]
	for c := range s.control {
		s.control[c].forgetWrites()
		oldest = min(oldest, s.control[c].at[Blocks])
	}
	s.versions = slices.DeleteFunc(slices.Clone(s.versions), func(o *object) bool { return o.version <= oldest })
	text = m.encode(s)
	if len(s.control) == 2 {
		other := s.clone()
		other.control[0], other.control[1] = s.control[1], s.control[0]
		if otherText := m.encode(other); otherText < text {
			return other, otherText, true
		}
	}
	return s, text, false
}

// checkRecords checks every state: no record is there twice, and the records are bounded.
func (m *machine) checkRecords(s *state) {
	c := m.cluster(s)
	for _, n := range c.Networks {
		m.complain(spec.HistoryRepeats(c, n))
		records, limit := 0, int(*n.Spec.AddressHistory.Limit)
		for _, h := range c.Histories {
			records += len(h.Spec.Records)
		}
		if most := limit + max(limit/4, 1); records > most {
			m.complain(fmt.Sprintf("%d records, want at most %d before the oldest are deleted", records, most))
		}
	}
}

// checkHistory lets two minutes pass after the last transition, while only one of the controllers
// still works. Then nothing may be missing without a gap, and the controller must be silent.
func (m *machine) checkHistory(s *state) {
	for c := range s.control {
		end := s.clone()
		for _, pause := range []uint8{60, 9, 9, 9, 9, 60} { // seconds, at most 256 in all
			m.work(end, c)
			end.ticks += pause
		}
		cluster := m.cluster(end)
		for _, n := range cluster.Networks {
			promise := spec.HistoryTrue
			if m.config.OneWriter {
				promise = spec.HistoryDone
			}
			if why := cmp.Or(promise(cluster, n, end.ended), spec.HistoryRepeats(cluster, n)); why != "" {
				m.complain("the history of addresses: " + why)
			}
		}
		if calls := m.work(end, c); len(calls) > 0 {
			m.complain("L2: the history of addresses does this although nothing changes: " + strings.Join(calls, ", "))
		}
	}
}

// work lets one controller sync until it has nothing to do at this time. It returns the calls.
func (m *machine) work(s *state, c int) (calls []string) {
	for {
		var next *state
		m.only(s, c, func(a action, to *state) {
			if next != nil || a.fault {
				return
			}
			if next = to; s.control[c].sync != nil {
				calls = append(calls, a.what())
			}
		})
		if next == nil {
			return calls
		}
		*s = *next
	}
}

// only emits the steps of one controller.
func (m *machine) only(s *state, c int, emit func(action, *state)) {
	if s.control[c].sync == nil {
		m.starts(s, c, emit)
	} else {
		m.steps(s, c, emit)
	}
}
