// Command kubectl-pod2 is the kubectl plugin `kubectl pod2`. It does for a Pod2 the work
// of `kubectl rollout` and `kubectl set image`. It also shows which pod holds which
// address, and the actions that the controller would take for a changed manifest.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/transport"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	"github.com/pod2/pod2/pkg/reconcile"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	flags := genericclioptions.NewConfigFlags(true).WithWarningPrinter(streams)
	t := &tool{IOStreams: streams, config: flags, now: time.Now}
	t.connect = func() (reconcile.Clients, error) { return connect(flags, t.wrap) }
	command := newCommand(t)
	flags.AddFlags(command.PersistentFlags())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	run, err := command.ExecuteContextC(ctx)
	if err != nil && !errors.Is(err, errWouldChange) {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if status := exitStatus(run, err); status != 0 {
		os.Exit(status)
	}
}

// exitStatus of a command that ended with this error. For plan it is that of `kubectl
// diff`: 1 says that something would change, so an error is 2.
func exitStatus(run *cobra.Command, err error) int {
	switch {
	case err == nil:
		return 0
	case run.Name() == planName && !errors.Is(err, errWouldChange):
		return 2
	}
	return 1
}

func connect(flags *genericclioptions.ConfigFlags, wrap transport.WrapperFunc) (reconcile.Clients, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return reconcile.Clients{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.UserAgent = fieldManager
	config.Wrap(wrap)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return reconcile.Clients{}, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	sample, err := versioned.NewForConfig(config)
	if err != nil {
		return reconcile.Clients{}, fmt.Errorf("create a client for %s: %w", config.Host, err)
	}
	return reconcile.Clients{Kube: kube, Sample: sample}, nil
}
