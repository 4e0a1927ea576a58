package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Fault is a failure of the server, or of a webhook that it calls: it answers some requests
// with an error before anything else. It does not affect a test's users, or the cluster
// around the server.
type Fault struct {
	// On are the kinds of requests, as in Kinds: "POST pods". If empty, every write counts,
	// except writes of events and leases.
	On []string
	// In is the namespace of the objects, "" for any.
	In string
	// Hits says whether the n-th of these requests, from 1 on, fails. If nil, all fail.
	Hits func(n int) bool
	// Error is the answer. If nil, the connection breaks.
	Error error
	// Answer, if not nil, replaces Error: it returns the answer to each request, nil for no
	// fault. If the error is not an answer of an API server, the connection breaks with it.
	// If On is empty, Answer applies to requests of any kind.
	Answer func(*Call) error
	// Done says that a write is carried out anyway.
	Done bool

	met int
}

// Answers of servers that cannot serve. A client repeats a request by itself after the last
// one, which says when.
var (
	ErrInternal    = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	ErrUnavailable = apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	ErrTimeout     = apierrors.NewTimeoutError("request did not complete within requested timeout - context deadline exceeded", 0)
	ErrBusy        = apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again later", 1)
)

// WebhookIsDown is the answer to a request whose webhook does not answer, if its
// failurePolicy is Fail.
func WebhookIsDown(name string) error {
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: Post %q: dial tcp 10.96.0.9:443: connect: connection refused",
		name, "https://webhook.default.svc:443/?timeout=10s"))
}

// First hits the first n requests.
func First(n int) func(int) bool { return func(i int) bool { return i <= n } }

// Only hits the n-th request.
func Only(n int) func(int) bool { return func(i int) bool { return i == n } }

// Break begins a fault; the returned function ends it.
func (s *Server) Break(f Fault) (mend func()) {
	s.Lock()
	defer s.Unlock()
	s.Note("fault begins: %v answers %s", shortly(f.On), f.text())
	s.broken = append(s.broken, &f)
	return func() {
		s.Lock()
		defer s.Unlock()
		s.Note("fault ends: %v", shortly(f.On))
		s.broken = slices.DeleteFunc(s.broken, func(other *Fault) bool { return other == &f })
	}
}

func shortly(kinds []string) string {
	if len(kinds) > 9 {
		return fmt.Sprintf("[%d kinds]", len(kinds))
	}
	return fmt.Sprint(kinds)
}

func (f *Fault) text() string {
	text := "nothing"
	if f.Error != nil {
		text = string(apierrors.ReasonForError(f.Error))
	}
	if f.Done {
		return text + ", but carries it out"
	}
	return text
}

// strike returns the fault that a request meets, nil for none, and the answer.
func (s *Server) strike(c *Call) (*Fault, error) {
	if c.Resource == nil {
		return nil, nil
	}
	for _, f := range s.broken {
		if len(f.On) == 0 && f.Answer == nil && !c.Counts() || len(f.On) > 0 && !slices.Contains(f.On, c.Kind()) || f.In != "" && f.In != c.Namespace {
			continue
		}
		err := f.Error
		if f.Answer != nil {
			if err = f.Answer(c); err == nil {
				continue
			}
		}
		if f.met++; f.Hits == nil || f.Hits(f.met) {
			return f, err
		}
	}
	return nil, nil
}

// Answer answers a call like the server with its faults. outcome is the server's own
// result, nil if the call was not carried out. The error is that of a broken connection.
func (s *Server) Answer(c *Call) (answer, outcome *http.Response, broke error) {
	s.Lock()
	f, err := s.strike(c)
	if f != nil {
		s.Note("%s: %s meets a fault: %s", c.Process, c.What, f.text())
	}
	s.Unlock()
	switch {
	case f == nil:
		outcome = s.handle(c)
		return outcome, outcome, nil
	case f.Done && c.writes():
		outcome = s.handle(c)
	}
	switch status := apierrors.APIStatus(nil); {
	case err == nil:
		return nil, outcome, ErrLost
	case errors.As(err, &status):
		return failure(err), outcome, nil
	}
	return nil, outcome, err
}

// ErrLost is the error that a client gets if its connection broke.
var ErrLost = fmt.Errorf("apiserver: the connection broke: %w", syscall.ECONNRESET)
