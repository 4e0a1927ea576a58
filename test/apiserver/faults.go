package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Fault is something wrong with the server, or with a webhook that it calls: some
// requests are answered with an error, before anything else is looked at. What users do
// in a test, and what the cluster around the server does, is spared.
type Fault struct {
	// On are the kinds of requests, as in Kinds: "POST pods". None: every write but those
	// of events and leases.
	On []string
	// In is the namespace of the objects; "": any.
	In string
	// Hits says whether the n-th of these requests, from 1 on, is answered so; nil: all are.
	Hits func(n int) bool
	// Error is what is answered; nil: the connection breaks.
	Error error
	// Answer, if not nil, says for each request what is answered instead, and nil where there
	// is no fault; the connection breaks with what is no answer of an API server. It is for
	// requests of any kind if On names none.
	Answer func(*Call) error
	// Done says that a write is carried out all the same.
	Done bool

	met int
}

// What servers answer when they cannot serve; a client tries again by itself after the
// last one, which says when.
var (
	ErrInternal    = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	ErrUnavailable = apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	ErrTimeout     = apierrors.NewTimeoutError("request did not complete within requested timeout - context deadline exceeded", 0)
	ErrBusy        = apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again later", 1)
)

// WebhookIsDown is the answer to a request that a webhook is asked about which does not
// answer, and without which (failurePolicy: Fail) nothing is done.
func WebhookIsDown(name string) error {
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: Post %q: dial tcp 10.96.0.9:443: connect: connection refused",
		name, "https://webhook.default.svc:443/?timeout=10s"))
}

// First hits the first n requests.
func First(n int) func(int) bool { return func(i int) bool { return i <= n } }

// Only hits the n-th request.
func Only(n int) func(int) bool { return func(i int) bool { return i == n } }

// Break is the beginning of a fault; mend is its end.
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
		return text + ", though it is done"
	}
	return text
}

// strike is the fault that a request meets, nil if it meets none, and what is answered.
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

// Answer answers a call as the server does with its faults. It returns what came of the
// call besides; nil: nothing was done. An error is that of a connection that broke.
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

// ErrLost is what a client is told whose connection broke.
var ErrLost = fmt.Errorf("apiserver: the connection broke: %w", syscall.ECONNRESET)
