package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/pkg/plan"
)

// lasting is how long syncs of a key fail before a condition says why, where that is
// not for its user to mend: most of what the API server answers with a 5xx is over by
// then. A refusal is told at once.
const lasting = 10 * time.Second

// outages remembers since when the syncs of a key have failed without a good one
// between them, and how often.
type outages struct {
	mu    sync.Mutex
	clock clock.PassiveClock
	byKey map[Key]outage
}

type outage struct {
	since time.Time
	syncs int
}

func newOutages(clock clock.PassiveClock) *outages {
	return &outages{clock: clock, byKey: map[Key]outage{}}
}

// ended notes how a sync ended. One on an old view says nothing.
func (o *outages) ended(key Key, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		delete(o.byKey, key)
	case errors.Is(err, ErrStale):
	default:
		is := o.byKey[key]
		if is.syncs++; is.syncs == 1 {
			is.since = o.clock.Now()
		}
		o.byKey[key] = is
	}
}

// syncs is how many have failed.
func (o *outages) syncs(key Key) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byKey[key].syncs
}

func (o *outages) lasts(key Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	is, fails := o.byKey[key]
	return fails && o.clock.Since(is.since) >= lasting
}

// explain is what a condition says of a failure, in the words of the API server;
// false: nothing yet.
func (s *shared) explain(key Key, err error) (message string, tell bool) {
	if errors.Is(err, errOverruled) {
		return err.Error(), true
	}
	if message, tell = forUser(err); tell || endsSteps(err) || !s.outages.lasts(key) {
		return message, tell
	}

	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Message, true
	}
	return err.Error(), true
}

// endsSteps says that nothing else is worth a try: the view is old, we are told to
// stop, or the namespace goes with all that is in it.
func endsSteps(err error) bool {
	return errors.Is(err, ErrStale) || errors.Is(err, context.Canceled) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// steps are the writes of one plan. After one that failed, those that do not depend
// on it are still made, until it turns out that the view is old.
type steps struct {
	*shared
	key   Key
	errs  []error
	told  []plan.Failure // what conditions are to say
	ended bool
}

func (s *shared) steps(key Key) *steps { return &steps{shared: s, key: key} }

// do makes a step, unless the steps have ended, and says whether it was done. The
// reason is that of the condition, should it fail.
func (s *steps) do(reason string, step func() error) bool { return s.doFor(&reason, step) }

// doFor is do for a step that says itself what the reason is.
func (s *steps) doFor(reason *string, step func() error) bool {
	if s.ended {
		return false
	}
	err := step()
	if err == nil {
		return true
	}
	s.errs = append(s.errs, err)
	s.ended = endsSteps(err)
	if message, tell := s.explain(s.key, err); tell {
		s.told = append(s.told, plan.Failure{Reason: *reason, Message: message})
	}
	return false
}

func (s *steps) failed() bool { return len(s.errs) > 0 }

func (s *steps) err() error { return errors.Join(s.errs...) }
