package sim

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/pod2/pod2/test/apiserver"
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
	// until then nothing goes from the process to the server, nor back: then the
	// program may end, for want of its lease.
	HoldAt  int
	HoldAll bool
	Held    func()
	// Ended is called when the process is killed.
	Ended func()

	cancel func()
	s      *Cluster
	// reads are the last single objects that it read live.
	reads    map[apiserver.Key]reading
	writes   int
	requests int
	dead     bool
	cut      bool // off the server, for the time being
	stale    Staleness
}

// Staleness counts the writes of syncs that did not know the object as it was when they
// arrived: when the sync began the watch had not shown it so. So they do if it is the
// owner of what they create, which no live read since has shown so either.
type Staleness struct {
	// Refused by a precondition, or because the name was taken.
	Refused int
	// ByUID were carried out: conditions of pods, whose precondition is the UID, which
	// was still right.
	ByUID int
	// Orphans were created or adopted although their owner was gone: garbage, collected.
	Orphans int
	// Blocks of the ledger were created that bind pods which are gone: released again.
	Blocks int
	// Edited were created for an owner the spec of which had changed meanwhile, or that
	// was being deleted: the next sync, of the new spec, finds them.
	Edited int
	// Applied were carried out, and should not have been.
	Applied int
}

// Add adds up.
func (s *Staleness) Add(o Staleness) {
	s.Refused += o.Refused
	s.ByUID += o.ByUID
	s.Orphans += o.Orphans
	s.Blocks += o.Blocks
	s.Edited += o.Edited
	s.Applied += o.Applied
}

// NewProcess is one that runs under the director.
func (s *Cluster) NewProcess(name string) *Process {
	s.Lock()
	defer s.Unlock()
	p := &Process{Name: name, s: s, Frozen: map[string]int{}, Ended: func() {}}
	s.processes[name] = p
	return p
}

// Config is how the process reaches the server.
func (p *Process) Config() *rest.Config { return apiserver.Config(p) }

// Writes is how many writes it asked for; events and leases do not count.
func (p *Process) Writes() int {
	p.s.Lock()
	defer p.s.Unlock()
	return p.writes
}

// Dead says whether the process was killed.
func (p *Process) Dead() bool {
	p.s.Lock()
	defer p.s.Unlock()
	return p.dead
}

// Freeze keeps the watches of a resource as they are at a resourceVersion, which is 0
// before the first change of all.
func (p *Process) Freeze(resource string, at int) {
	p.s.Lock()
	defer p.s.Unlock()
	p.Frozen[resource] = at
}

// Thaw has the watches of a resource go on.
func (p *Process) Thaw(resource string) {
	p.s.Lock()
	defer p.s.Unlock()
	delete(p.Frozen, resource)
	p.s.wake()
}

var errRefused = errors.New("sim: connection refused: the process was killed")

// RoundTrip waits until the director executes the request. One that its sender no
// longer waits for is executed all the same, as it may be in a cluster.
func (p *Process) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := apiserver.ReadCall(p.Name, r)
	if err != nil {
		return nil, err
	}
	st := &step{process: p, call: c, answer: make(chan *http.Response, 1)}
	p.s.Lock()
	if p.dead {
		p.s.Unlock()
		return nil, errRefused
	}
	st.view = p.s.viewOf(r.Context(), p, c)
	p.s.pending = append(p.s.pending, st)
	p.s.wake()
	p.s.Unlock()
	select {
	case response := <-st.answer:
		switch {
		case response != nil:
			return response, nil
		case p.Dead():
			return nil, errRefused
		}
		return nil, apiserver.ErrLost
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// Kill has nothing that the process asks for happen any more.
func (p *Process) Kill() {
	p.s.Lock()
	defer p.s.Unlock()
	p.kill()
}

func (p *Process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	p.s.Note("%s is killed", p.Name)
	p.s.pending = slices.DeleteFunc(p.s.pending, func(st *step) bool {
		if st.process == p {
			st.answer <- nil
		}
		return st.process == p
	})
	for _, w := range p.s.Watchers() {
		if w.Who == p.Name {
			w.End(io.ErrUnexpectedEOF)
		}
	}
	p.Ended()
}

// Stale is what the process asked for on an old view so far.
func (p *Process) Stale() Staleness {
	p.s.Lock()
	defer p.s.Unlock()
	return p.stale
}
