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

// lasting is how long syncs of a key must fail before a condition reports an error that
// its user cannot fix. Most 5xx responses of the API server end earlier. A refusal is
// reported at once.
const lasting = 10 * time.Second

// outages remembers since when the syncs of a key have failed without a success in
// between, and how often.
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

// ended records the end of a sync. A sync on an old view does not count.
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

// syncs is the number of failed syncs.
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

// explain returns the message of a condition about a failure, in the words of the API
// server. It returns false if it is too early to report the failure.
func (o *outages) explain(key Key, err error) (message string, tell bool) {
	if errors.Is(err, errOverruled) {
		return err.Error(), true
	}
	if endsSteps(err) {
		return "", false
	}
	for _, one := range eachOf(err) {
		// The API server answers 409 if others change a ResourceQuota at the same moment: the next attempt succeeds.
		if message, tell = forUser(one); tell && !apierrors.IsConflict(one) {
			return message, true
		}
	}
	if !o.lasts(key) {
		return "", false
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Message, true
	}
	return err.Error(), true
}

// eachOf returns the errors that were joined.
func eachOf(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, eachOf(one)...)
	}
	return all
}

// endsSteps says that no further write makes sense: the view is old, the process stops,
// or the namespace is being deleted with all its objects.
func endsSteps(err error) bool {
	return errors.Is(err, ErrStale) || errors.Is(err, context.Canceled) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// steps are the writes of one plan. After a failed write, the writes that do not depend
// on it are still made, until one shows that the view is old.
type steps struct {
	outages *outages
	key     Key
	errs    []error
	told    []plan.Failure // failures to report in conditions
	ended   bool
}

func (s *shared) steps(key Key) *steps { return &steps{outages: s.outages, key: key} }

// do makes a step, unless the steps have ended, and says whether it succeeded. The reason
// is for the condition if the step fails.
func (s *steps) do(reason string, step func() error) bool { return s.doFor(&reason, step) }

// doFor is do for a step that sets the reason itself.
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
	if message, tell := s.outages.explain(s.key, err); tell {
		s.told = append(s.told, plan.Failure{Reason: *reason, Message: message})
	}
	return false
}

func (s *steps) failed() bool { return len(s.errs) > 0 }

func (s *steps) err() error { return errors.Join(s.errs...) }
