package sim

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Process is a program that speaks to the server, and may be killed.
type Process struct {
	// Name is that of this run of the program: a second run is another process.
	Name string
	// StartAt, if not 0, is the resourceVersion that its first lists show.
	StartAt int
	// Frozen are the resources whose watches show nothing that came after a
	// resourceVersion.
	Frozen map[string]int
	// CrashAt, if not 0, is the write at which the process is killed; Applied says
	// that it is one that was carried out, the answer to which is lost.
	CrashAt int
	Applied bool
	// HoldAt, if not 0, is the write that waits until Held, which is called then,
	// has returned. Everything else goes on, unless HoldAll says that from then on
	// until then nothing goes from the process to the server, nor back.
	HoldAt  int
	HoldAll bool
	Held    func()
	// Ended is called when the process is killed.
	Ended func()
	// Err is what the program returned.
	Err error

	cancel func()
	s      *Server
	writes int
	dead   bool
	cut    bool // off the server, for the time being
	stale  Staleness
}

// Staleness counts the writes that a process decided on while its watch did not show
// the object, or the owner of the one to be created, as it was when they arrived.
type Staleness struct {
	// Refused by a precondition, or because the name was taken.
	Refused int
	// ByUID were carried out: deletions, and conditions of pods, whose precondition
	// is the UID, which was still right.
	ByUID int
	// Orphans were created although their owner was gone: garbage, collected.
	Orphans int
	// Blocks of the ledger were created that bind pods which are gone: released again.
	Blocks int
	// Applied were carried out, and should not have been.
	Applied int
}

// Add adds up.
func (s *Staleness) Add(o Staleness) {
	s.Refused += o.Refused
	s.ByUID += o.ByUID
	s.Orphans += o.Orphans
	s.Blocks += o.Blocks
	s.Applied += o.Applied
}

// NewProcess is one that runs under the director.
func (s *Server) NewProcess(name string) *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Process{Name: name, s: s, Frozen: map[string]int{}, Ended: func() {}}
	s.processes[name] = p
	return p
}

// Config is how the process reaches the server.
func (p *Process) Config() *rest.Config { return config(p) }

// Writes is how many writes it asked for; events and leases do not count.
func (p *Process) Writes() int {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.writes
}

// Dead says whether the process was killed.
func (p *Process) Dead() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.dead
}

// Freeze keeps the watches of a resource as they are at a resourceVersion; 0 ends
// it.
func (p *Process) Freeze(resource string, at int) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	delete(p.Frozen, resource)
	if at > 0 {
		p.Frozen[resource] = at
	}
	p.s.wake()
}

var errRefused = errors.New("sim: connection refused: the process was killed")

// RoundTrip waits until the director executes the request. One that its sender no
// longer waits for is executed all the same, as it may be in a cluster.
func (p *Process) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := readCall(p.Name, r)
	if err != nil {
		return nil, err
	}
	st := &step{process: p, call: c, answer: make(chan *http.Response, 1)}
	p.s.mu.Lock()
	if p.dead {
		p.s.mu.Unlock()
		return nil, errRefused
	}
	if c.counts() {
		st.seen = p.s.seenBy(p, c.resource)
	}
	p.s.pending = append(p.s.pending, st)
	p.s.wake()
	p.s.mu.Unlock()
	select {
	case response := <-st.answer:
		if response == nil {
			return nil, errRefused
		}
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// Kill has nothing that the process asks for happen any more.
func (p *Process) Kill() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.kill()
}

func (p *Process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	p.s.note("%s is killed", p.Name)
	p.s.pending = slices.DeleteFunc(p.s.pending, func(st *step) bool {
		if st.process == p {
			st.answer <- nil
		}
		return st.process == p
	})
	for _, w := range p.s.watchers {
		if w.process == p {
			w.stream.end(io.ErrUnexpectedEOF)
		}
	}
	p.Ended()
}

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
	// Age is how many steps were taken since it could be.
	Age int
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
			offered[i] = Step{Process: st.process.Name, What: st.text(), Event: st.watcher != nil, Write: st.call != nil && st.call.counts(), Age: round - st.round}
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
// its watch showed it when it decided; or creates one for an owner that is gone.
func (s *Server) behind(st *step) (old, orphan bool) {
	c := st.call
	if !c.counts() {
		return false, false
	}
	name := c.name
	if c.method == http.MethodPost {
		obj, err := c.decode()
		if err != nil {
			return false, false
		}
		name = obj.GetName()
		ref := metav1.GetControllerOf(obj)
		orphan = ref != nil && !s.exists(ref.UID)
	}
	for _, h := range s.history[min(st.seen, len(s.history)):] {
		// Of what it wrote itself it has the answer.
		if h.key == (key{c.resource.Resource, c.namespace, name}) && h.by != st.process.Name {
			return true, orphan
		}
	}
	return false, orphan
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

// Stale is what the process asked for on an old view so far.
func (p *Process) Stale() Staleness {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.stale
}
