package sim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// step is what can happen next: a request, or an event for a watch.
type step struct {
	process *Process
	round   int // in which it could happen first
	call    *call
	answer  chan *http.Response
	held    bool
	seen    int // how much of the history the process was shown when it asked

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
	old, orphan := s.behind(st)
	s.mu.Unlock()
	response := s.handle(st.call) //nolint:bodyclose // the client closes it
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := st.call; {
	case !old && !orphan:
	case response.StatusCode >= 300:
		p.stale.Refused++
	case orphan:
		p.stale.Orphans++
		s.note("%s: that was for an owner that is gone", p.Name)
	case c.method == http.MethodDelete || c.method == http.MethodPatch && c.sub == "status":
		p.stale.ByUID++
	case c.method == http.MethodPost && c.resource.Resource == "addressblocks":
		p.stale.Blocks++
	default:
		p.stale.Applied++
		s.note("%s: that was decided on an old view", p.Name)
	}
	if crash {
		p.kill()
		st.answer <- nil
		return true
	}
	st.answer <- response
	return true
}

// behind says whether a process writes to an object that is not, on the server, as
// its watch showed it when it decided; or gives it an owner that is gone.
func (s *Server) behind(st *step) (old, orphan bool) {
	c := st.call
	if !c.counts() {
		return false, false
	}
	name, refs := c.name, []metav1.OwnerReference(nil)
	switch c.method {
	case http.MethodPost, http.MethodPut:
		obj, err := c.decode()
		if err != nil {
			return false, false
		}
		name, refs = obj.GetName(), obj.GetOwnerReferences()
	case http.MethodPatch:
		var body metav1.PartialObjectMetadata
		if err := json.Unmarshal(c.body, &body); err != nil {
			return false, false
		}
		refs = body.OwnerReferences
	}
	var has []metav1.OwnerReference
	if stored := s.get(c.resource, c.namespace, name); stored != nil {
		has = stored.GetOwnerReferences()
	}
	orphan = slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool {
		same := func(other metav1.OwnerReference) bool { return other.UID == ref.UID }
		return !s.exists(ref.UID) && !slices.ContainsFunc(has, same)
	})
	for _, h := range s.history[min(st.seen, len(s.history)):] {
		if h.key == (key{c.resource.Resource, c.namespace, name}) {
			old = h.by != st.process.Name // of what it wrote itself, last, it has the answer
		}
	}
	return old, orphan
}

// seenBy is the place in the history up to which a process was shown a resource.
func (s *Server) seenBy(p *Process, r *resource) int {
	seen := len(s.history)
	for _, w := range s.watchers {
		if w.process == p && w.resource == r && !w.stream.over() {
			s.next(w) // past what is not for this watch
			seen = min(seen, w.seen)
		}
	}
	return seen
}

func (s *Server) exists(uid types.UID) bool {
	for _, v := range s.objects {
		if v.object.GetUID() == uid {
			return true
		}
	}
	return false
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
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.process.Name, b.process.Name), cmp.Compare(a.call.what, b.call.what))
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
