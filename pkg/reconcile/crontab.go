package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/crontab"
	"github.com/pod2/pod2/pkg/plan"
)

// cronTabKind syncs CronTabs.
type cronTabKind struct {
	*shared
	runs *throttle
}

// runsEvery is how long the times and numbers in a CronTab's status stay unchanged after
// the first of them changes. The schedule, the CronJob, its Job and its pods report one
// run at five moments. Two or three are within seconds of its start, the others within
// seconds of its end. So each run costs two writes instead of five. Conditions are
// written at once.
const runsEvery = 5 * time.Second

func newCronTabKind(s *shared) *cronTabKind { return &cronTabKind{s, newThrottle(s.clock, runsEvery)} }

func (r *cronTabKind) observe(key Key) (crontab.State, time.Duration, error) {
	state := crontab.State{Now: r.clock.Now(), CronTab: r.cronTabs.get(key.Namespace, key.Name), NumbersHeld: r.runs.gathered(key, runsEvery)}
	if state.CronTab == nil {
		r.runs.end(key)
		return state, 0, errNothing
	}
	state.Zone, state.ZoneProblem = zone(state.CronTab.Spec.TimeZone)
	state = withCronJob(state, r.cronJobs.get(key.Namespace, key.Name))
	for _, n := range state.CronTab.Spec.Networks {
		if found := r.networks.get(key.Namespace, n.Name); found != nil {
			state.Networks = append(state.Networks, found)
		}
	}
	slices.SortFunc(state.Networks, plan.ByName)
	state.Jobs = r.jobs.sorted(byCronTab, key.path())
	state.Pods = r.pods.sorted(byCronTab, key.path())
	if state.CronTab.DeletionTimestamp != nil {
		state.Blocks = r.blocks.in(key.Namespace)
		state.Pods = r.withHolders(state.Pods, state.Blocks)
	}
	return state, 0, nil
}

// withHolders returns the pods and those to which the AddressBlocks bind addresses, in name order.
func (s *caches) withHolders(pods []*corev1.Pod, blocks []*samplev1.AddressBlock) []*corev1.Pod {
	for _, block := range blocks {
		for i := range block.Spec.Entries { // large, so they are not copied
			e := &block.Spec.Entries[i]
			if e.State != samplev1.AddressBound {
				continue
			}
			if pod := s.pods.get(block.Namespace, e.Pod); pod != nil && pod.UID == e.PodUID {
				pods = append(pods, pod)
			}
		}
	}
	slices.SortFunc(pods, plan.ByName)
	return slices.Compact(pods)
}

func withCronJob(state crontab.State, cronJob *batchv1.CronJob) crontab.State {
	state.CronJob, state.CronJobZone = cronJob, nil
	if cronJob != nil {
		state.CronJobZone, _ = zone(cronJob.Spec.TimeZone)
	}
	return state
}

// zone reads a time zone from the database of the machine, or else from the one built
// into the program. The API server does not accept "Local".
func zone(name *string) (*time.Location, string) {
	if name == nil {
		return time.UTC, ""
	}
	if *name == "" || strings.EqualFold(*name, "Local") {
		return nil, "names no zone"
	}
	location, err := time.LoadLocation(*name)
	if err != nil {
		return nil, err.Error()
	}
	return location, ""
}

// apply writes the plan in the order of its fields. The status reports failures.
func (r *cronTabKind) apply(ctx context.Context, key Key, state crontab.State, plan crontab.Plan) (Result, error) {
	result := Result{RequeueAfter: plan.RequeueAfter}
	if plan.Gathers {
		r.runs.gather(key, runsEvery)
	} else {
		r.runs.end(key)
	}
	steps, status, events := r.steps(key), plan.Status, plan.Events
	after, reason := state, crontab.ReasonFailedUpdate
	done := steps.doFor(&reason, func() (err error) {
		if plan.Release {
			return r.release(ctx, key, state)
		}
		after, reason, err = r.changeCronJob(ctx, key, state, plan)
		return err
	})
	if !done {
		status, events = crontab.Observed(after), nil
		if len(steps.told) > 0 {
			failure := steps.told[0]
			failure.Reason = reason
			status, events = crontab.WithFailure(after, failure)
		}
	}
	if status != nil && !steps.ended && !steps.do("", func() error { return r.updateStatus(ctx, key, state.CronTab, *status) }) {
		return result, steps.err()
	}
	r.record(state.CronTab, events)
	return result, steps.err()
}

func (r *cronTabKind) updateStatus(ctx context.Context, key Key, current *v1.CronTab, status v1.CronTabStatus) error {
	next := current.DeepCopy()
	next.Status = status
	_, err := r.writeCronTabs.updateStatus(ctx, key, current, next)
	return err
}

// errOverruled says that the API server changed the written object. Without it, the
// controller and an admission policy would overwrite each other forever.
var errOverruled = errors.New("an admission policy or webhook changes it back: exempt CronJobs of CronTabs from it, or let it change Jobs or pods instead")

// changeCronJob carries out the plan for the CronJob. It returns the state with the
// resulting CronJob and, if a write fails, the reason for the condition.
func (r *cronTabKind) changeCronJob(ctx context.Context, key Key, state crontab.State, plan crontab.Plan) (after crontab.State, reason string, err error) {
	var written *batchv1.CronJob
	switch {
	case plan.Delete != nil:
		return state, crontab.ReasonFailedDelete, r.writeCronJobs.deleteBy(ctx, key, *plan.Delete, ptr.To(metav1.DeletePropagationForeground))
	case plan.Create != nil:
		reason = crontab.ReasonFailedCreate
		if err = r.live.confirmCronTab(ctx, key, state.CronTab); err == nil {
			written, err = r.writeCronJobs.create(ctx, key, plan.Create, "")
		}
	case plan.Update != nil:
		reason = crontab.ReasonFailedUpdate
		// Do not add a reference to a CronTab that is being deleted: the garbage
		// collector would delete the CronJob, which the user wants to keep.
		if plan.Update.Adopts() {
			err = r.live.confirmCronTab(ctx, key, state.CronTab)
		}
		if err == nil {
			written, err = r.writeCronJobs.update(ctx, key, state.CronJob, plan.Update.Object, plan.Update.Reason)
		}
	}
	if err != nil || written == nil {
		return state, reason, err
	}
	after = withCronJob(state, written)
	if why := crontab.Overruled(after); why != "" {
		err = fmt.Errorf("CronJob %s does not keep the values of this CronTab (%s): %w", written.Name, why, errOverruled)
	}
	return after, crontab.ReasonOverruled, err
}

// release removes the finalizer after a live read shows that nothing of the runs is left.
// A cache may not show the last of them yet.
func (r *cronTabKind) release(ctx context.Context, key Key, state crontab.State) error {
	now, err := r.liveState(ctx, key, state)
	if err != nil {
		return fmt.Errorf("confirm for %s that its runs have ended: %w", key, err)
	}
	if waits := crontab.Waits(now); waits != "" {
		return fmt.Errorf("%s: %s still exists, but the cache does not show it: %w", key, waits, ErrStale)
	}
	next := state.CronTab.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == v1.WaitFinalizer })
	_, err = r.writeCronTabs.update(ctx, key, state.CronTab, next, "nothing is left of the runs")
	return err
}

// liveState reads from the API server the objects that a CronTab waits for, each before the
// objects that are created from it: see crontab.Waits.
func (r *cronTabKind) liveState(ctx context.Context, key Key, state crontab.State) (crontab.State, error) {
	live := crontab.State{Now: state.Now, CronTab: state.CronTab, Zone: state.Zone, ZoneProblem: state.ZoneProblem}
	cronJob, err := r.live.cronJobs(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		live.CronJob = cronJob
	case !apierrors.IsNotFound(err):
		return live, fmt.Errorf("get CronJob %s/%s: %w", key.Namespace, key.Name, err)
	}
	jobs, err := r.live.jobs(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1.CronTabLabel + "=" + key.Name})
	if err != nil {
		return live, fmt.Errorf("list the Jobs of %s: %w", key, err)
	}
	for i := range jobs.Items {
		live.Jobs = append(live.Jobs, &jobs.Items[i])
	}
	pods, err := r.live.pods(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: samplev1.ManagedLabel + "=true"})
	if err != nil {
		return live, fmt.Errorf("list the managed pods of namespace %s: %w", key.Namespace, err)
	}
	for i := range pods.Items {
		live.Pods = append(live.Pods, &pods.Items[i])
	}
	blocks, err := r.live.blocks(key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return live, fmt.Errorf("list the AddressBlocks of namespace %s: %w", key.Namespace, err)
	}
	for i := range blocks.Items {
		live.Blocks = append(live.Blocks, &blocks.Items[i])
	}
	return live, nil
}

// byGoing finds CronTabs that are being deleted and wait. Its values are namespaces.
const byGoing = "going"

// byCronTab finds the Jobs and pods that have a CronTab's label.
const byCronTab = "crontab"

func cronTabOf[T metav1.Object](o T) []string { return labelled(o, v1.CronTabLabel) }

func networksOfCronTab(c *v1.CronTab) []string {
	var networks []string
	for _, n := range c.Spec.Networks {
		networks = append(networks, path(c.Namespace, n.Name))
	}
	return networks
}

func namespaceOfGoing(c *v1.CronTab) []string {
	if c.DeletionTimestamp == nil || !slices.Contains(c.Finalizers, v1.WaitFinalizer) {
		return nil
	}
	return []string{c.Namespace}
}

// goingCronTabs returns the CronTabs that wait for addresses of an AddressBlock.
func (s *caches) goingCronTabs(block *samplev1.AddressBlock) []Key {
	var keys []Key
	for _, c := range s.cronTabs.by(byGoing, block.Namespace) {
		keys = append(keys, keyOf(KindCronTab, c))
	}
	return keys
}

func labelledCronTab[T metav1.Object](o T) []Key { return keysOf(KindCronTab, cronTabOf(o)) }

// confirmCronTab is confirmPod2 for the CronJob of a CronTab.
func (r live) confirmCronTab(ctx context.Context, key Key, c *v1.CronTab) error {
	live, err := r.cronTabs(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	return confirmOwner(key, c, live, err)
}

// cronTabsOn returns the CronTabs on a Network.
func (s *caches) cronTabsOn(n *samplev1.Network) []Key {
	var keys []Key
	for _, c := range s.cronTabs.by(byNetwork, pathOf(n)) {
		keys = append(keys, keyOf(KindCronTab, c))
	}
	return keys
}
