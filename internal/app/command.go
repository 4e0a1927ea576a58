// Package app has the parts that a program needs around its controller: the command line,
// clients, events, leader election, health and metrics. main.go connects them.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/internal/version"
)

const programName = "pod2-controller"

// Command reads a command line without the program's name and calls run until a signal
// comes. It returns the exit status: 0 after a graceful stop, 1 after a failure (also a
// lost lease), 2 for a wrong command line.
func Command(args []string, stdout, stderr io.Writer, run func(context.Context, *rest.Config, *Options) error) int {
	o, err := parseOptions(args)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\nRun %s --help for the flags.\n", programName, err, programName)
		return 2
	case o.help:
		fmt.Fprintf(stdout, "%s runs the Networks, Pod2s and CronTabs of a cluster.\n\nFlags:\n%s", programName, o.flags().FlagUsagesWrapped(100))
		return 0
	case o.version:
		fmt.Fprintln(stdout, programName, version.String())
		return 0
	}
	defer klog.Flush()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // without a handler, a second signal ends the process at once
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
