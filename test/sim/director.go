package sim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing/synctest"

	"github.com/pod2/pod2/test/apiserver"
)

// step is a possible next step: a request, or an event for a watch.
type step struct {
	process *Process
	round   int // the first round in which it could happen
	call    *apiserver.Call
	answer  chan *http.Response
	held    bool
	view    *view

	watcher *apiserver.Watcher
	event   string
	change  apiserver.Change
}

// Step describes a possible next step to a Choose function.
type Step struct {
	Process string
	// For example "POST pods/web-0", or "watch pods" for an event.
	What string
	// Event marks an event for a watch. Write marks a request that counts as a write.
	Event, Write bool
}

// storm is the limit of requests of a process. No scenario needs so many.
const storm = 50_000

// Choose returns the index of the next step, or -1 to wait until something happens. The
// steps are in their default order: events first.
type Choose func([]Step) int

// wake tells the director to look for steps.
func (s *Cluster) wake() { signal(s.toDirector) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Direct takes steps until stop is closed. It calls synctest.Wait, so nothing else in the
// bubble may call it.
func (s *Cluster) Direct(stop <-chan struct{}, choose Choose) {
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

func (s *Cluster) step(round int, choose Choose) bool {
	s.Lock()
	steps := s.steps(round)
	which := 0
	if choose != nil && len(steps) > 0 {
		offered := make([]Step, len(steps))
		for i, st := range steps {
			offered[i] = Step{Process: st.process.Name, What: st.text(), Event: st.watcher != nil, Write: st.call != nil && st.call.Counts()}
		}
		which = choose(offered)
	}
	if len(steps) == 0 || which < 0 {
		s.Unlock()
		return false
	}
	st := steps[which]
	if st.watcher != nil {
		defer s.Unlock()
		kind, c, _ := s.Next(st.watcher)
		s.Deliver(st.watcher, kind, c)
		return true
	}
	p := st.process
	if p.HoldAt > 0 && st.call.Counts() && p.writes+1 == p.HoldAt {
		p.HoldAt = 0
		st.held, p.cut = true, p.HoldAll
		s.Note("%s: %s is held", p.Name, st.call.What)
		go func() {
			p.Held()
			s.Lock()
			defer s.Unlock()
			st.held, p.cut = false, false
			s.Note("%s: %s arrives", p.Name, st.call.What)
			s.wake()
		}()
		s.Unlock()
		return true
	}
	s.pending = slices.DeleteFunc(s.pending, func(other *step) bool { return other == st })
	if p.requests++; p.requests > storm && !p.dead {
		// A process that never stops asking would keep the test running for ever.
		s.fault(fmt.Sprintf("%s made too many requests: %d", p.Name, p.requests))
		p.kill()
		st.answer <- nil
		s.Unlock()
		return true
	}
	crash := false
	if st.call.Counts() {
		p.writes++
		crash = p.writes == p.CrashAt
	}
	if crash && !p.Applied {
		s.Note("%s: %s is never sent", p.Name, st.call.What)
		p.kill()
		st.answer <- nil
		s.Unlock()
		return true
	}
	lag, before := s.behind(st), len(s.History())
	st.view.learns(st.process, st.call, before)
	s.Unlock()
	response, outcome, _ := s.Answer(st.call) //nolint:bodyclose // the client closes it
	s.Lock()
	defer s.Unlock()
	if outcome != nil && st.call.Resource != nil {
		s.asked[st.call.Kind()] = true
	}
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

// steps returns the possible steps in their default order.
func (s *Cluster) steps(round int) []*step {
	var steps []*step
	for _, w := range s.Watchers() {
		p := s.processes[w.Who]
		if p == nil || p.cut {
			continue
		}
		kind, c, ok := s.Next(w)
		if !ok {
			continue
		}
		if limit, frozen := p.Frozen[w.Resource.Resource]; frozen && c.New.Number > limit {
			continue
		}
		steps = append(steps, &step{process: p, round: round, watcher: w, event: string(kind), change: c})
	}
	slices.SortStableFunc(steps, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.change.New.Number, b.change.New.Number), cmp.Compare(a.process.Name, b.process.Name),
			cmp.Compare(a.watcher.Resource.Resource, b.watcher.Resource.Resource))
	})
	// Requests that could first happen in the same round arrived in no order.
	for _, st := range s.pending {
		if st.round == 0 {
			st.round = round
		}
	}
	slices.SortStableFunc(s.pending, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.process.Name, b.process.Name), cmp.Compare(a.call.What, b.call.What), cmp.Compare(a.call.Path, b.call.Path))
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
		return "watch " + st.watcher.Resource.Resource
	}
	return st.call.What
}
