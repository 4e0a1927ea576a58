package model

import (
	"fmt"
	"slices"
)

// action is a transition from one state to the next.
type action struct {
	who   string
	by    int // the controller, -1 for none
	what  func() string
	fault bool // a fault, an edit, or a sync with an old view
}

// text names the controllers so that each keeps its name in a trace.
func (a action) text(swapped bool) string {
	who := a.who
	if who == "" {
		who = "A"
		if (a.by == 1) != swapped {
			who = "B"
		}
	}
	return fmt.Sprintf("%-8s %s", who, a.what())
}

// expand emits the possible actions of a state, in an order that depends only on the state.
// The resulting states are not yet canonical.
func (m *machine) expand(s *state, emit func(action, *state)) {
	for c := range s.control {
		if s.control[c].sync == nil {
			m.starts(s, c, emit)
		} else {
			m.steps(s, c, emit)
		}
		m.crashes(s, c, emit)
	}
	m.surroundings(s, emit)
	for i, e := range m.config.Edits {
		if s.left[i+fixedFaults] == 0 {
			continue
		}
		next := s.clone()
		if next.left[i+fixedFaults]--; e.Do(&World{m, next}) {
			emit(action{who: "user", what: func() string { return e.Name }, fault: true}, next)
		}
	}
}

// Faults whose number every configuration sets.
const (
	crashesLeft = iota
	lostLeft
	deathsLeft
	oldViewsLeft
	ticksLeft
	fixedFaults
)

// starts begins syncs. Each old cache may catch up first or not, in every combination. A
// sync that makes no call changes nothing.
func (m *machine) starts(s *state, c int, emit func(action, *state)) {
	for key := range m.config.Keys {
		var lagging []Kind
		for _, k := range reads(m.config.Keys[key]) {
			if s.control[c].at[k] != s.last[k] {
				lagging = append(lagging, k)
			}
		}
		for subset := range 1 << len(lagging) {
			fresh := subset == 1<<len(lagging)-1
			if !fresh && s.left[oldViewsLeft] == 0 {
				continue
			}
			next := s.clone()
			if !fresh && s.left[oldViewsLeft] != Any {
				next.left[oldViewsLeft]--
			}
			ctl := &next.control[c]
			for i, k := range lagging {
				if subset&(1<<i) != 0 {
					if k == Blocks {
						m.watches(s, ctl)
					}
					ctl.cache[k], ctl.at[k] = s.shown(k, m.watched), s.last[k]
				}
			}
			ctl.sync = &syncing{key: uint8(key), ticks: s.ticks}
			first := m.run(ctl)
			if first.next == nil {
				if first.memory.history == s.control[c].memory.history {
					continue
				}
				ctl.memory, ctl.sync = first.memory, nil
			}
			emit(action{by: c, fault: !fresh, what: func() string {
				text := "starts to sync " + m.config.Keys[key].String()
				for i, k := range lagging {
					if subset&(1<<i) == 0 {
						text += fmt.Sprintf(", its cache of %s is old", k)
					}
				}
				return text
			}}, next)
		}
	}
}

// steps makes the next call of an unfinished sync.
func (m *machine) steps(s *state, c int, emit func(action, *state)) {
	pending := m.run(&s.control[c]).next
	step := func(lost bool) {
		next := s.clone()
		m.checkCall(pending)
		before := next.last
		a := m.serve(next, pending)
		a.to = pending.brief()
		stored := next.last != before
		what := func() string {
			text := pending.trace()
			if a.err != none {
				text += " -> " + a.err.String()
			}
			return text
		}
		if lost {
			if !stored {
				return
			}
			next.left[lostLeft]--
			a = answer{to: a.to, err: timeout}
			text := what
			what = func() string { return text() + ", and the answer is lost" }
		}
		m.checkWrite(s, next, c, pending, stored)
		ctl := &next.control[c]
		ctl.sync = &syncing{key: ctl.sync.key, ticks: ctl.sync.ticks, answers: append(slices.Clip(ctl.sync.answers), a)}
		if after := m.run(ctl); after.next == nil {
			ctl.memory, ctl.sync = after.memory, nil
		}
		emit(action{by: c, what: what, fault: lost}, next)
	}
	step(false)
	if s.left[lostLeft] > 0 && pending.writes() {
		step(true)
	}
}

// crashes ends a controller. It restarts with no state except that of the API server.
func (m *machine) crashes(s *state, c int, emit func(action, *state)) {
	if s.left[crashesLeft] == 0 || s.control[c].sync == nil && s.control[c].memory.empty() && s.control[c].memory.history == nil {
		return
	}
	next := s.clone()
	next.left[crashesLeft]--
	ctl := &next.control[c]
	*ctl = control{}
	for k := range kinds {
		ctl.cache[k], ctl.at[k] = next.shown(k, m.watched), next.last[k]
	}
	m.lists(ctl)
	emit(action{by: c, what: func() string { return "crashes and restarts" }, fault: true}, next)
}
