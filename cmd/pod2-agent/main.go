//go:build linux

// Command pod2-agent programs the kernel of its node for the cluster's Overlay Networks.
// Packages dataplane, tables and authorize decide. Packages kernel and node read and write. This package has
// the watches and the loop.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/internal/serving"
	"github.com/pod2/pod2/internal/version"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/kernel"
	"github.com/pod2/pod2/pkg/agent/node"
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
			"  %s cleanup    removes its links, programs and tables from this node; keeps sysctls and the interfaces of pods\n"+
			"  %s status [ports|places|networks|nodes|drops]    prints the tables of the programs, or a summary\n"+
			"  %s trace [NAMESPACE/]POD ADDRESS    says where the programs, rules and routes take a packet of a pod of this node\n\nFlags:\n%s",
			programName, programName, programName, programName, programName, o.flags().FlagUsagesWrapped(100))
		return 0
	case o.showVersion:
		fmt.Fprintln(stdout, programName, version.String())
		return 0
	}
	if len(o.command) > 0 {
		if err := perform(o, stdout); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", programName, err)
			return 1
		}
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := dropCapabilities(); err != nil {
		klog.FromContext(ctx).Info("Could not drop all unneeded capabilities", "reason", err)
	}
	if err := run(ctx, kernel.New(o.netnsDir), o); err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		klog.FromContext(ctx).Error(err, "Agent failed")
		return 1
	}
	return 0
}

// perform a command.
func perform(o *options, out io.Writer) error {
	switch o.command[0] {
	case "status":
		return status(out, o.bpfDir, strings.Join(o.command[1:], ""))
	case "trace":
		return trace(out, o.bpfDir, o.command[1], o.command[2])
	}
	return errors.Join(cleanUp(kernel.New(o.netnsDir), out), node.CleanUp(o.bpfDir, out))
}

// run until ctx ends. The error says why the agent cannot work.
func run(ctx context.Context, k *kernel.Kernel, o *options) error {
	logger := klog.FromContext(ctx)
	clients, err := newClients(o)
	if err != nil {
		return err
	}
	logger.Info("Starting", "version", version.String(), "node", o.node, "vxlanPort", o.vxlanPort, "transit", o.transit)

	wake, metrics := newAlarm(), k8smetrics.NewKubeRegistry()
	var a *agent
	n, err := node.New(node.Config{Name: o.node, Directory: o.bpfDir, AllowBypass: o.allowBypass, UDPPort: o.vxlanPort, Transit: o.transit, Changed: wake.ring,
		Wrote: func(took time.Duration) { a.metrics.programming.Observe(took.Seconds()) }})
	if err != nil {
		return err
	}
	defer n.Close()
	view := newView(clients, o.node, n, wake.ring) //nolint:contextcheck // its watches get the context of start
	a = newAgent(k, n, view.state, o)
	a.tell(ctx, n.EarlyProblems()) // at once, because the loop waits for the API server
	metrics.MustRegister(a.metrics.all()...)
	metrics.CustomMustRegister(&dropsCollector{programs: n.Drops, rules: k.Drops})
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
	closeSocket, err := serve(ctx, n, o.socket)
	if err != nil {
		return err
	}
	defer closeSocket()

	if err := kernel.Watch(ctx, wake.ring); err != nil {
		return err
	}
	if !view.start(ctx) {
		return nil
	}
	a.run(ctx, wake)
	return nil
}

// serve requests of pod2-cni until the returned function is called. It returns when the running ones have ended.
func serve(ctx context.Context, h cni.Handler, socket string) (stop func(), err error) {
	listener, err := cni.Listen(socket)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	server := cni.Server{Handler: h, Refused: func(why error) { logger.Info("Refused a request of pod2-cni", "reason", why) }}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(ctx, listener); err != nil {
			logger.Error(err, "Serving pod2-cni failed: new pods cannot start on this node until the agent restarts")
		}
	}()
	return func() { cancel(); <-ended }, nil
}

// cleanUp the node. Nothing may be left: an agent that still runs makes everything again.
func cleanUp(k *kernel.Kernel, out io.Writer) error {
	bridges, err := k.Bridges()
	if err != nil {
		return err
	}
	earlierToo := len(bridges) == 0
	if !earlierToo {
		fmt.Fprintf(out, "keep everything of an earlier version, because pods are on bridge %s: drain the node, and run this again\n", strings.Join(bridges, ", "))
	}
	done, err := k.Remove(earlierToo)
	fmt.Fprint(out, done)
	if err != nil {
		return err
	}
	if done, err = k.Remove(earlierToo); len(done) > 0 {
		return errors.Join(errors.New("removed things reappear: is an agent still running on this node?"), err)
	}
	return err
}
