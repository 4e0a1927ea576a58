//go:build linux

// Command pod2-agent programs the kernel of its node for the cluster's Overlay Networks.
// Package dataplane decides, and package kernel reads and writes. This package has the
// watches and the loop.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/internal/serving"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/kernel"
)

const programName = "pod2-agent"

func main() {
	code := command(os.Args[1:], os.Stdout, os.Stderr)
	klog.Flush()
	os.Exit(code)
}

// command returns the exit status: 0 after a graceful stop, 1 after a failure, 2 for a
// wrong command line.
func command(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\nRun %s --help for the flags.\n", programName, err, programName)
		return 2
	case o.help:
		fmt.Fprintf(stdout, "%s programs the kernel of its node for the Overlay Networks of the cluster.\n\nUsage:\n"+
			"  %s            runs until you stop it; the kernel then stays unchanged\n"+
			"  %s cleanup    removes its links, namespaces and tables from this node; keeps sysctls, and bridges that have pods\n\nFlags:\n%s",
			programName, programName, programName, o.flags().FlagUsagesWrapped(100))
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := dropCapabilities(); err != nil {
		klog.FromContext(ctx).Info("Could not drop all unneeded capabilities", "reason", err)
	}
	k, err := kernel.New(o.netnsDir)
	if err == nil {
		defer k.Close()
		if o.cleanup {
			err = cleanUp(k, stdout)
		} else {
			err = run(ctx, k, o)
		}
	}
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		klog.FromContext(ctx).Error(err, "Agent failed")
		return 1
	}
	return 0
}

// run until ctx ends. The error says why the agent cannot work.
func run(ctx context.Context, k *kernel.Kernel, o *options) error {
	logger := klog.FromContext(ctx)
	clients, err := newClients(o)
	if err != nil {
		return err
	}
	logger.Info("Starting", "node", o.node, "vxlanPort", o.vxlanPort, "transit", o.transit)

	wake := newAlarm()
	view := newView(clients, wake.ring)
	a := newAgent(k, kernel.NewPorts(o.cniResults), view.state, o)
	metrics := k8smetrics.NewKubeRegistry()
	metrics.MustRegister(a.metrics.all()...)
	a.metrics.drops.read = k.Drops
	metrics.CustomMustRegister(a.metrics.drops)
	closeHealth, err := serving.Listen(ctx, "health-probe-bind-address", o.healthAddress, serving.Probes(a.live, a.ready))
	if err != nil {
		return err
	}
	defer closeHealth()
	closeMetrics, err := serving.Listen(ctx, "metrics-bind-address", o.metricsAddress, serving.Metrics(metrics))
	if err != nil {
		return err
	}
	defer closeMetrics()

	if err := k.Watch(ctx, o.cniResults, wake.ring); err != nil {
		return err
	}
	if !view.start(ctx) {
		return nil
	}
	a.run(ctx, wake)
	return nil
}

// cleanUp ends when nothing is left to remove.
func cleanUp(k *kernel.Kernel, out io.Writer) error {
	for range 3 {
		host, err := k.Read()
		if err != nil {
			return err
		}
		plan := dataplane.Diff(host, nil)
		if len(plan) == 0 {
			return nil
		}
		fmt.Fprint(out, plan)
		if _, err := k.Perform(plan); err != nil {
			return err
		}
	}
	return errors.New("removed things reappear: is an agent still running on this node?")
}
