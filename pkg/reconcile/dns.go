package reconcile

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
)

// dnsKind writes the DNS names of the replicas of Pod2s.
type dnsKind struct {
	*shared
	over     *confirmedOver
	names    *findings[pod2.Names]
	facts    *podFacts[dns.Facts]
	throttle *throttle
}

// namesEvery is how long the DNS names of a Pod2's replicas stay unchanged after a write.
// When 2,000 replicas become ready within seconds, each of their slices is written once a
// second instead of a hundred times. A single change is written at once.
const namesEvery = time.Second

func newDNSKind(s *shared, over *confirmedOver, names *findings[pod2.Names]) *dnsKind {
	return &dnsKind{s, over, names, newPodFacts[dns.Facts](), newThrottle(s.clock, namesEvery)}
}

// observe reads the view of the DNS names of one Pod2's replicas. The Pod2's status will
// soon report earlier findings, so observe treats them as reported.
func (r *dnsKind) observe(key Key) (state dns.State, again time.Duration, err error) {
	if left := r.throttle.left(key); left > 0 {
		return state, left, errNothing
	}
	state = dns.State{Now: r.clock.Now(), Pod2: r.pod2s.get(key.Namespace, key.Name)}
	if state.Pod2 == nil {
		r.facts.of(key, nil)
		state.Slices = r.slices.sorted(byPod2, key.path())
		return state, 0, nil
	}
	if found := r.names.of(state.Pod2, namesTold(state.Pod2)); found != nil {
		state.Pod2 = state.Pod2.DeepCopy()
		found.Tell(&state.Pod2.Status)
	}
	var pods, services, slices time.Duration
	state.Pods, pods = r.podsOfPod2(key)
	state.Facts = r.facts.of(key, state.Pods)
	named := func(name string) bool { return strings.HasPrefix(name, key.Name+"-") }
	servicesAt, slicesAt := r.services.at(), r.slices.at()
	state.Services, services = r.writeServices.unwatched.addTo(key, r.services.by(byPod2, key.path()), servicesAt, func(s *corev1.Service) bool { return named(s.Name) })
	state.Slices, slices = r.writeSlices.unwatched.addTo(key, r.slices.by(byPod2, key.path()), slicesAt, func(s *discoveryv1.EndpointSlice) bool { return named(s.Name) })
	return state, plan.Soonest(pods, plan.Soonest(services, slices)), nil
}

func namesTold(p *v1.Pod2) func(pod2.Names) bool {
	return func(n pod2.Names) bool { return n.Told(p.Status) }
}

// apply writes the plan in the order of its fields. A failure for one Service does not
// prevent the writes of another.
func (r *dnsKind) apply(ctx context.Context, key Key, state dns.State, plan dns.Plan) (result Result, err error) {
	steps := r.steps(key)
	steps.do(dns.ReasonFailedDelete, func() error {
		_, err := forEach(ctx, plan.Withdraw, deleting(key, r.writeSlices))
		return err
	})
	if state.Pod2 == nil {
		return result, steps.err()
	}
	confirmed := steps.do(dns.ReasonFailedCreate, func() error {
		if plan.NeedsOwner() {
			if err := r.live.confirmPod2(ctx, key, state.Pod2); err != nil {
				return err
			}
		}
		return r.over.confirm(ctx, key, plan.ConfirmGone)
	})
	if confirmed {
		steps.do(dns.ReasonFailedDelete, func() error {
			if _, err := forEach(ctx, plan.DeleteSlices, deleting(key, r.writeSlices)); err != nil {
				return err
			}
			_, err := forEach(ctx, plan.DeleteServices, deleting(key, r.writeServices))
			return err
		})
		for _, writes := range plan.Services {
			reason := ""
			steps.doFor(&reason, func() (err error) {
				reason, err = r.changeService(ctx, key, writes)
				return err
			})
		}
	}
	status, events := plan.Status, plan.Events
	if steps.failed() {
		status, events = dns.Observed(state) // the plan's status may report writes that were not made
		if len(steps.told) > 0 {
			status, events = dns.WithFailures(state, steps.told)
		}
	}
	if status != nil && !steps.ended {
		r.names.tell(state.Pod2, pod2.Names{Condition: meta.FindStatusCondition(status.Conditions, v1.ConditionDNSPublished)})
		result.Wakes = []Key{{KindPod2, key.Namespace, key.Name}}
		r.record(state.Pod2, events)
	}
	// Writes that follow the creation of a Service do not wait.
	if !steps.failed() && plan.WritesSlices() {
		r.throttle.begin(key)
	}
	return result, steps.err()
}

func deleting[T fenced.Object](key Key, w writer[T]) func(context.Context, plan.Deletion) error {
	return func(ctx context.Context, d plan.Deletion) error { return w.delete(ctx, key, d) }
}

// changeService writes a Service and then its slices. If a write fails, it returns the
// reason for the condition.
func (r *dnsKind) changeService(ctx context.Context, key Key, w dns.ServiceWrites) (reason string, err error) {
	if w.Create != nil {
		if _, err := r.writeServices.create(ctx, key, w.Create, ""); err != nil {
			return dns.ReasonFailedCreate, err
		}
	}
	if u := w.Update; u != nil {
		if _, err := r.writeServices.update(ctx, key, u.Was, u.Object, u.Reason); err != nil {
			return dns.ReasonFailedUpdate, err
		}
	}
	_, err = forEach(ctx, w.CreateSlices, func(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
		_, err := r.writeSlices.create(ctx, key, slice, "")
		return err
	})
	if err != nil {
		return dns.ReasonFailedCreate, err
	}
	_, err = forEach(ctx, w.UpdateSlices, func(ctx context.Context, u plan.Update[*discoveryv1.EndpointSlice]) error {
		_, err := r.writeSlices.update(ctx, key, u.Was, u.Object, u.Reason)
		return err
	})
	return dns.ReasonFailedUpdate, err
}

// dnsOfPod returns the Pod2s whose DNS names may have an address that the pod publishes.
func dnsOfPod(pod *corev1.Pod) []Key {
	if pod.Annotations[v1.AddressesAnnotation] == "" {
		return nil
	}
	return keysOf(KindDNS, pod2sOfPod(pod))
}

// sameNames recognizes updates of a pod that change no name and no endpoint.
func sameNames(old, new any) bool {
	was, ok1 := old.(*corev1.Pod)
	is, ok2 := new.(*corev1.Pod)
	return ok1 && ok2 && dns.Alike(was, is)
}
