package sim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing/synctest"
)

// step is what can happen next: a request, or an event for a watch.
type step struct {
	process *Process
	round   int // in which it could happen first
	call    *call
	answer  chan *http.Response
	held    bool
	view    *view

	watcher *watcher
	event   string
	change  change
}

// Step is what the director may do next.
type Step struct {
	Process string
	// What is "POST pods/web-0", or "watch pods" for an event.
	What string
	// Event says that it is an event for a watch, Write that it counts as a write.
	Event, Write bool
}

// storm is more requests than a process makes in any scenario, undisturbed or not.
const storm = 50_000

// Choose says which step comes next; -1: none of them until something happens.
// They are in the order in which they come by themselves: events first.
type Choose func([]Step) int

// wake has the director look for steps.
func (s *Server) wake() { signal(s.toDirector) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Direct takes steps until stop is closed. It calls synctest.Wait: nobody else in
// the bubble may.
func (s *Server) Direct(stop <-chan struct{}, choose Choose) {
	round := 0
	for {
		select {
		case <-stop:
			return
		case <-s.toDirector:
		}
		for {
			synctest.Wait()
			round++
			if !s.step(round, choose) {
				break
			}
		}
	}
}

func (s *Server) step(round int, choose Choose) bool {
	s.mu.Lock()
	steps := s.steps(round)
	which := 0
	if choose != nil && len(steps) > 0 {
		offered := make([]Step, len(steps))
		for i, st := range steps {
			offered[i] = Step{Process: st.process.Name, What: st.text(), Event: st.watcher != nil, Write: st.call != nil && st.call.counts()}
		}
		which = choose(offered)
	}
	if len(steps) == 0 || which < 0 {
		s.mu.Unlock()
		return false
	}
	st := steps[which]
	if st.watcher != nil {
		defer s.mu.Unlock()
		kind, c, _ := s.next(st.watcher)
		s.deliver(st.watcher, kind, c)
		return true
	}
	p := st.process
	if p.HoldAt > 0 && st.call.counts() && p.writes+1 == p.HoldAt {
		p.HoldAt = 0
		st.held, p.cut = true, p.HoldAll
		s.note("%s: %s is on its way", p.Name, st.call.what)
		go func() {
			p.Held()
			s.mu.Lock()
			defer s.mu.Unlock()
			st.held, p.cut = false, false
			s.note("%s: %s arrives", p.Name, st.call.what)
			s.wake()
		}()
		s.mu.Unlock()
		return true
	}
	s.pending = slices.DeleteFunc(s.pending, func(other *step) bool { return other == st })
	if p.requests++; p.requests > storm && !p.dead {
		// One that asks for ever would have the test never end.
		s.fault(fmt.Sprintf("%s made %d requests: a storm", p.Name, p.requests))
		p.kill()
		st.answer <- nil
		s.mu.Unlock()
		return true
	}
	crash := false
	if st.call.counts() {
		p.writes++
		crash = p.writes == p.CrashAt
	}
	if crash && !p.Applied {
		s.note("%s: %s is never sent", p.Name, st.call.what)
		p.kill()
		st.answer <- nil
		s.mu.Unlock()
		return true
	}
	lag, before := s.behind(st), len(s.history)
	st.view.learns(st.process, st.call, before)
	s.mu.Unlock()
	response, outcome := s.serve(st.call) //nolint:bodyclose // the client closes it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wroteBy(st, before)
	s.stales(st, lag, outcome)
	if crash {
		p.kill()
		st.answer <- nil
		return true
	}
	st.answer <- response
	return true
}

// steps are in the order in which they come by themselves.
func (s *Server) steps(round int) []*step {
	var steps []*step
	s.watchers = slices.DeleteFunc(s.watchers, func(w *watcher) bool { return w.stream.over() })
	for _, w := range s.watchers {
		if w.process == nil || w.process.cut {
			continue
		}
		kind, c, ok := s.next(w)
		if !ok {
			continue
		}
		if limit, frozen := w.process.Frozen[w.resource.Resource]; frozen && c.new.number > limit {
			continue
		}
		steps = append(steps, &step{process: w.process, round: round, watcher: w, event: string(kind), change: c})
	}
	slices.SortStableFunc(steps, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.change.new.number, b.change.new.number), cmp.Compare(a.process.Name, b.process.Name),
			cmp.Compare(a.watcher.resource.Resource, b.watcher.resource.Resource))
	})
	// Requests that could come first in the same round came in no order.
	for _, st := range s.pending {
		if st.round == 0 {
			st.round = round
		}
	}
	slices.SortStableFunc(s.pending, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.process.Name, b.process.Name), cmp.Compare(a.call.what, b.call.what), cmp.Compare(a.call.path, b.call.path))
	})
	for _, st := range s.pending {
		if !st.held && !st.process.cut {
			steps = append(steps, st)
		}
	}
	return steps
}

func (st *step) text() string {
	if st.watcher != nil {
		return "watch " + st.watcher.resource.Resource
	}
	return st.call.what
}
