// Command pod2-controller runs the Networks, Pod2s and CronTabs of a cluster.
// This file wires the parts that setup.go, health.go and election.go make;
// controller.go is the loop, pkg/reconcile the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/internal/serving"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/reconcile"
)

const programName = "pod2-controller"

func main() {
	code := command(os.Args[1:], os.Stdout, os.Stderr)
	klog.Flush()
	os.Exit(code)
}

// command returns the exit status: 0 after a graceful stop, 1 after a failure
// (a lost lease is one), 2 for a command line that is wrong.
func command(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\nRun %s --help for the flags.\n", programName, err, programName)
		return 2
	case o.help:
		fmt.Fprintf(stdout, "%s runs the Networks, Pod2s and CronTabs of a cluster.\n\nFlags:\n%s", programName, o.flags().FlagUsagesWrapped(100))
		return 0
	case o.version:
		fmt.Fprintln(stdout, programName, version())
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal meets no handler and ends the process at once
	config, err := restConfig(o)
	if err == nil {
		err = run(ctx, config, o)
	}
	stopped := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if err != nil && !stopped {
		klog.FromContext(ctx).Error(err, "Controller failed")
		return 1
	}
	return 0
}

// run returns when ctx has ended and everything that it started has stopped,
// or with what kept it from working.
func run(ctx context.Context, config *rest.Config, o *options) error {
	logger := klog.FromContext(ctx)
	clients, err := newClients(config, o)
	if err != nil {
		return err
	}
	logger.Info("Starting", "version", version(), "apiServer", config.Host, "namespace", o.namespace)

	health := newHealth(ctx)
	health.await("the API of " + samplecrdv1.GroupName)
	closeHealth, err := serving.Listen(ctx, "health-probe-bind-address", o.healthAddress, serving.Probes(health.live, health.ready))
	if err != nil {
		return err
	}
	defer closeHealth()
	metrics := k8smetrics.NewKubeRegistry() // of this run: a test has several
	mux := serving.Metrics(metrics)
	if o.profiling {
		serving.AddProfiles(mux)
	}
	closeMetrics, err := serving.Listen(ctx, "metrics-bind-address", o.metricsAddress, mux)
	if err != nil {
		return err
	}
	defer closeMetrics()

	if err := waitForAPI(ctx, clients.Kube.Discovery()); err != nil {
		return err
	}

	serviceCIDRs, err := servesServiceCIDRs(ctx, clients.Kube.Discovery())
	if err != nil {
		return err
	}

	// Informers and events outlive ctx: syncs under way at the stop use them.
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	recorder, stopEvents := newRecorder(background, clients.Kube)
	informers, factories := newInformers(clients, o.namespace, o.agentNamespace, serviceCIDRs)
	defer func() {
		stopEvents()
		end()
		for _, factory := range factories {
			factory.Shutdown()
		}
	}()
	reconciler, err := reconcile.New(clients, informers, recorder, clock.RealClock{}, o.settings())
	if err != nil {
		return fmt.Errorf("set up the reconciler: %w", err)
	}
	metrics.CustomMustRegister(&networkCollector{networks: informers.Networks.Lister()},
		&podCollector{pods: informers.Pods.Lister(), clock: clock.RealClock{}})
	controller, err := NewController(ctx, reconciler, reconciler.Watches())
	if err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	defer controller.queue.ShutDown() // of a standby, which never ran it
	for _, factory := range factories {
		factory.StartWithContext(background)
	}
	health.await("the caches to fill; the log says which list is refused, if one is")
	if !controller.WaitForSync(ctx) {
		return nil
	}
	health.watch(controller.Check, reconciler.Check)
	go wait.UntilWithContext(background, reconciler.CompareVersions, compareVersionsEvery)

	work := func(ctx, syncs context.Context) error { return controller.Run(ctx, syncs, o.workers) }
	if !o.election.LeaderElect {
		health.await("")
		return work(ctx, background)
	}
	lock, err := newLock(config, o)
	if err != nil {
		return err
	}
	return lead(ctx, lock, o.election, health, work)
}
