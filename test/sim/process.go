package sim

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/pod2/pod2/test/apiserver"
)

// Process is a program that uses the server and can be killed.
type Process struct {
	// Name is the name of this run of the program: a second run is another process.
	Name string
	// StartAt, if not 0, is the resourceVersion that its first lists show.
	StartAt int
	// Frozen are the resources whose watches are frozen: they show nothing newer than this
	// resourceVersion.
	Frozen map[string]int
	// CrashAt, if not 0, is the number of the write at which the process is killed. If
	// Applied is set, the write is carried out and its answer is lost.
	CrashAt int
	Applied bool
	// HoldAt, if not 0, is the number of the write that waits. Held is called then, and the
	// write is released when Held returns. Everything else continues. With HoldAll, nothing
	// passes between process and server in the meantime. The program may then end because
	// it loses its lease.
	HoldAt  int
	HoldAll bool
	Held    func()
	// Ended is called when the process is killed.
	Ended func()

	cancel func()
	s      *Cluster
	// reads are the latest live reads of single objects.
	reads    map[apiserver.Key]reading
	writes   int
	requests int
	dead     bool
	cut      bool // cut off from the server for now
	stale    Staleness
}

// Staleness counts the writes of syncs that did not know the latest version of the object:
// the watch had not shown it when the sync began. It also counts creations whose owner the
// sync did not know in its latest version, unless a live read has shown it since.
type Staleness struct {
	// Refused were refused by a precondition, or because the name was taken.
	Refused int
	// ByUID were carried out: conditions of pods. Their precondition is the UID, which was
	// still right.
	ByUID int
	// Orphans were created or adopted for a deleted owner. The garbage collector deletes
	// them.
	Orphans int
	// Blocks are new AddressBlocks that bind pods that are gone. Their entries are released
	// later.
	Blocks int
	// Edited were created for an owner that had a newer spec or was being deleted. The next
	// sync, with the newer owner, handles them.
	Edited int
	// Applied were carried out, but should not have been.
	Applied int
}

// Add adds the counts of o.
func (s *Staleness) Add(o Staleness) {
	s.Refused += o.Refused
	s.ByUID += o.ByUID
	s.Orphans += o.Orphans
	s.Blocks += o.Blocks
	s.Edited += o.Edited
	s.Applied += o.Applied
}

// NewProcess returns a process that runs under the director.
func (s *Cluster) NewProcess(name string) *Process {
	s.Lock()
	defer s.Unlock()
	p := &Process{Name: name, s: s, Frozen: map[string]int{}, Ended: func() {}}
	s.processes[name] = p
	return p
}

// Config returns the configuration with which the process reaches the server.
func (p *Process) Config() *rest.Config { return apiserver.Config(p) }

// Writes is the number of writes that the process requested. Events and leases do not
// count.
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

// Freeze stops the watches of a resource at a resourceVersion. The number 0 is before the
// very first change.
func (p *Process) Freeze(resource string, at int) {
	p.s.Lock()
	defer p.s.Unlock()
	p.Frozen[resource] = at
}

// Thaw lets the watches of a resource continue.
func (p *Process) Thaw(resource string) {
	p.s.Lock()
	defer p.s.Unlock()
	delete(p.Frozen, resource)
	p.s.wake()
}

var errRefused = errors.New("sim: connection refused: the process was killed")

// RoundTrip waits until the director executes the request. If the sender stops waiting, the
// request is executed anyway, as in a cluster.
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

// Kill drops all outstanding requests and watches of the process.
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

// Stale counts the requests that the process has so far made on an old view.
func (p *Process) Stale() Staleness {
	p.s.Lock()
	defer p.s.Unlock()
	return p.stale
}
