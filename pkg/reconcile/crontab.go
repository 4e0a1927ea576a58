package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/crontab"
)

func (r *Reconciler) syncCronTab(ctx context.Context, key Key) (Result, error) {
	state, err := r.observeCronTab(key)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	if state.CronTab == nil {
		return Result{}, nil
	}
	plan := crontab.Diff(state)
	var again time.Duration
	if !plan.StatusMayWait(state) {
		r.runs.end(key)
	} else if again = r.runs.gather(key); again > 0 {
		plan.Status = nil
	}
	if err := r.applyCronTab(ctx, key, state, plan); err != nil {
		return Result{}, err
	}
	return Result{RequeueAfter: soonest(plan.RequeueAfter, again)}, nil
}

// runsEvery is how long the times and numbers of a CronTab's status stay as they are once one of
// them has changed. The schedule, the CronJob, its Job and its pods tell of one run at five moments:
// two or three within seconds of its beginning, two or three within seconds of its end. So each run
// costs two writes and not five. Conditions are written at once.
const runsEvery = 5 * time.Second

// applyCronTab writes the plan in the order of its fields. What failed on the way is
// what the status says.
func (r *Reconciler) applyCronTab(ctx context.Context, key Key, state crontab.State, plan crontab.Plan) error {
	steps, status, events := r.steps(key), plan.Status, plan.Events
	after, reason := state, "FailedUpdate"
	done := steps.doFor(&reason, func() (err error) {
		if plan.Release {
			return r.releaseCronTab(ctx, key, state)
		}
		after, reason, err = r.writeCronJob(ctx, key, state, plan)
		return err
	})
	if !done {
		status, events = crontab.Observed(after), nil
		if len(steps.told) > 0 {
			status, events = crontab.WithFailure(after, steps.told[0])
		}
	}
	if status != nil && !steps.ended && !steps.do("", func() error { return r.updateCronTabStatus(ctx, key, state.CronTab, *status) }) {
		return steps.err()
	}
	r.record(state.CronTab, events)
	return steps.err()
}

func (r *Reconciler) updateCronTabStatus(ctx context.Context, key Key, current *v1.CronTab, status v1.CronTabStatus) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := rewriteStatus(ctx, r.clients.Sample.StableV1().CronTabs(key.Namespace), current, next)
	if err != nil {
		return fmt.Errorf("update the status of %s: %w", key, stale(err))
	}
	r.written.wrote(key, cronTabsResource, updated.ResourceVersion)
	return nil
}

// errOverruled says that what was written is not what the API server made of it.
// Without it, we and an admission policy would write in turn without an end.
var errOverruled = errors.New("an admission policy or webhook overrules it: exempt CronJobs of CronTabs there, or have it change Jobs or pods")

// writeCronJob carries out what the plan has for the CronJob. It returns the state
// with the CronJob that is there then, and should it fail, the condition's reason.
func (r *Reconciler) writeCronJob(ctx context.Context, key Key, state crontab.State, plan crontab.Plan) (after crontab.State, reason string, err error) {
	cronJobs := r.clients.Kube.BatchV1().CronJobs(key.Namespace)
	logger := klog.FromContext(ctx)
	switch {
	case plan.Delete != nil:
		d := plan.Delete
		options := asSeen(*d)
		options.PropagationPolicy = ptr.To(metav1.DeletePropagationForeground)
		err := cronJobs.Delete(ctx, d.Name, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return state, "FailedDelete", fmt.Errorf("delete CronJob %s/%s (%s): %w", key.Namespace, d.Name, d.Reason, stale(err))
		}
		r.written.deleted(key, cronJobsResource, path(key.Namespace, d.Name), d.UID)
		logger.Info("Deleted CronJob", "cronJob", d.Name, "reason", d.Reason)
	case plan.Create != nil:
		if err := r.confirmCronTab(ctx, key, state.CronTab); err != nil {
			return state, "FailedCreate", err
		}
		created, err := cronJobs.Create(ctx, plan.Create, metav1.CreateOptions{})
		if err != nil {
			return state, "FailedCreate", fmt.Errorf("create CronJob %s/%s: %w", key.Namespace, plan.Create.Name, stale(err))
		}
		logger.Info("Created CronJob", "cronJob", created.Name)
		after = withCronJob(state, created)
		return after, "Overruled", r.wroteCronJob(key, after)
	case plan.Update != nil:
		// With a reference to a CronTab that is going, what its user keeps would be collected as garbage.
		if plan.Update.Adopts() {
			if err := r.confirmCronTab(ctx, key, state.CronTab); err != nil {
				return state, "FailedUpdate", err
			}
		}
		updated, err := rewrite(ctx, cronJobs, state.CronJob, plan.Update.Object)
		if err != nil {
			return state, "FailedUpdate", fmt.Errorf("update CronJob %s/%s (%s): %w", key.Namespace, plan.Update.Object.Name, plan.Update.Reason, stale(err))
		}
		logger.Info("Updated CronJob", "cronJob", updated.Name, "reason", plan.Update.Reason)
		after = withCronJob(state, updated)
		return after, "Overruled", r.wroteCronJob(key, after)
	}
	return state, "", nil
}

// wroteCronJob has the answer decided upon as if it were observed: that nothing is
// left to be updated shows that nobody changed what we wrote.
func (r *Reconciler) wroteCronJob(key Key, after crontab.State) error {
	r.written.wrote(key, cronJobsResource, after.CronJob.ResourceVersion)
	if again := crontab.Diff(after).Update; again != nil {
		return fmt.Errorf("CronJob %s does not keep what this CronTab says (%s): %w", after.CronJob.Name, again.Reason, errOverruled)
	}
	return nil
}

// releaseCronTab takes the finalizer off, once a live read says that nothing is
// left of the runs: a cache may not show the last of them yet.
func (r *Reconciler) releaseCronTab(ctx context.Context, key Key, state crontab.State) error {
	live, err := r.liveCronTab(ctx, key, state)
	if err != nil {
		return fmt.Errorf("confirm for %s that its runs are over: %w", key, err)
	}
	if waits := crontab.Waits(live); waits != "" {
		return fmt.Errorf("%s: there is still %s, which the cache does not show: %w", key, waits, ErrStale)
	}
	next := state.CronTab.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == v1.WaitFinalizer })
	updated, err := rewrite(ctx, r.clients.Sample.StableV1().CronTabs(key.Namespace), state.CronTab, next)
	if err != nil {
		return fmt.Errorf("take the finalizer %s off %s: %w", v1.WaitFinalizer, key, stale(err))
	}
	r.written.wrote(key, cronTabsResource, updated.ResourceVersion)
	klog.FromContext(ctx).Info("Nothing is left of the runs: took the finalizer off", "finalizer", v1.WaitFinalizer)
	return nil
}

// liveCronTab reads what a CronTab waits for from the API server, in the order in
// which each comes into being through the one before: see crontab.Waits.
func (r *Reconciler) liveCronTab(ctx context.Context, key Key, state crontab.State) (crontab.State, error) {
	live := crontab.State{Now: state.Now, CronTab: state.CronTab, Zone: state.Zone, ZoneProblem: state.ZoneProblem}
	cronJob, err := r.clients.Kube.BatchV1().CronJobs(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		live.CronJob = cronJob
	case !apierrors.IsNotFound(err):
		return live, fmt.Errorf("get CronJob %s/%s: %w", key.Namespace, key.Name, err)
	}
	jobs, err := r.clients.Kube.BatchV1().Jobs(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1.CronTabLabel + "=" + key.Name})
	if err != nil {
		return live, fmt.Errorf("list the Jobs of %s: %w", key, err)
	}
	for i := range jobs.Items {
		live.Jobs = append(live.Jobs, &jobs.Items[i])
	}
	pods, err := r.clients.Kube.CoreV1().Pods(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: samplev1.ManagedLabel + "=true"})
	if err != nil {
		return live, fmt.Errorf("list the managed pods of namespace %s: %w", key.Namespace, err)
	}
	for i := range pods.Items {
		live.Pods = append(live.Pods, &pods.Items[i])
	}
	blocks, err := r.clients.Sample.SamplecrdV1().AddressBlocks(key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return live, fmt.Errorf("list the AddressBlocks of namespace %s: %w", key.Namespace, err)
	}
	for i := range blocks.Items {
		live.Blocks = append(live.Blocks, &blocks.Items[i])
	}
	return live, nil
}
