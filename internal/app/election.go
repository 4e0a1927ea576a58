package app

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	componentbase "k8s.io/component-base/config"
	"k8s.io/klog/v2"
)

// Lead uses the lease in the options and calls work while this process holds it.
func Lead(ctx context.Context, config *rest.Config, o *Options, health *Health, work func(ctx, syncs context.Context) error) error {
	lock, err := newLock(config, o)
	if err != nil {
		return err
	}
	return lead(ctx, lock, o.Election, health, work)
}

// newLock makes the lease with its own client. This client gives up soon enough to retry
// within the renew deadline, and shares no limit with the syncs.
func newLock(config *rest.Config, o *Options) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process for the lease: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(o.Election.ResourceLock, o.Election.ResourceNamespace, o.Election.ResourceName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, o.Election.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("set up the lease %s/%s: %w", o.Election.ResourceNamespace, o.Election.ResourceName, err)
	}
	return lock, nil
}

// lead waits for the lease, calls work, and releases the lease after work has returned.
// So no sync runs here when the next leader begins:
//
//	ctx ends      work's ctx ends; renewals continue until work returns; then release
//	lease lost    work's ctx and syncs both end; an error after work has returned
//
// The lease only provides liveness. A request may reach the API server long after its
// sender lost the lease, so safety depends on the preconditions of every write.
func lead(ctx context.Context, lock resourcelock.Interface, config componentbase.LeaderElectionConfiguration,
	health *Health, work func(ctx, syncs context.Context) error,
) error {
	logger := klog.FromContext(ctx)
	leading := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          config.ResourceName,
		Lock:          lock,
		LeaseDuration: config.LeaseDuration.Duration,
		RenewDeadline: config.RenewDeadline.Duration,
		RetryPeriod:   config.RetryPeriod.Duration,
		// ReleaseOnCancel would also release after a failed renewal while work still
		// runs, and could take up to RenewDeadline. The function release below does not.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				logger.Info("Found the leader", "identity", identity)
				health.Await("")
			},
		},
	})
	if err != nil {
		return fmt.Errorf("set up leader election with lease %s: %w", lock.Describe(), err)
	}
	health.lease.SetLeaderElection(elector)
	health.Await(fmt.Sprintf("the lease %s; the log says why it cannot be read or written", lock.Describe()))

	election, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(election)
	}()

	select {
	case <-ctx.Done():
	case <-leading:
		syncs, cut := context.WithCancel(context.WithoutCancel(ctx))
		defer cut()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			<-over
			stop()
			cut()
		}()
		err = work(ctx, syncs)
		select {
		case <-over:
			return fmt.Errorf("lost the lease %s as %s: it could not be renewed for %s; another controller may lead now",
				lock.Describe(), lock.Identity(), config.RenewDeadline.Duration)
		default:
		}
	}
	resign()
	<-over
	if releaseErr := release(context.WithoutCancel(ctx), lock, config.RenewDeadline.Duration); releaseErr != nil {
		logger.Error(releaseErr, "Could not release the lease: the next leader waits until it expires", "lease", lock.Describe())
	}
	return err
}

// release writes the lease as expired and without a holder, if this process holds it. The
// elector must have stopped.
func release(ctx context.Context, lock resourcelock.Interface, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The elector's last renewal may arrive after the elector stopped waiting for it.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		record, _, err := lock.Get(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil || record.HolderIdentity != lock.Identity() {
			return err
		}
		now := metav1.Now()
		return lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, // the minimum in the API
			AcquireTime:          now,
			RenewTime:            now,
			LeaderTransitions:    record.LeaderTransitions,
		})
	})
}
