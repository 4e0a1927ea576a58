// Command kubectl-pod2 is the kubectl plugin `kubectl pod2`: what `kubectl
// rollout` and `kubectl set image` do for a Deployment, for a Pod2; who holds which
// address; and what the controller would do with a changed manifest.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	flags := genericclioptions.NewConfigFlags(true).WithWarningPrinter(streams)
	command := newCommand(&tool{
		IOStreams: streams, config: flags, now: time.Now,
		connect: func() (clients, error) { return connect(flags) },
	})
	flags.AddFlags(command.PersistentFlags())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func connect(flags *genericclioptions.ConfigFlags) (clients, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return clients{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.UserAgent = fieldManager
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	sample, err := versioned.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return clients{kube: kube, sample: sample}, nil
}
