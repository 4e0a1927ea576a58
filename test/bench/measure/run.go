// Package measure is shared by the benchmarks. It has a run that ends at its first failure,
// the figures and the pages that show them, processes, and the local control plane.
package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// failure ends a run. It carries the line where it was found, like the failure of a test.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Check ends the run on an error, as Fatal ends a test: deferred functions still run. A
// benchmark that lost one figure does not need the others.
func Check(err error) {
	if err != nil {
		fail(err)
	}
}

// Must returns the value, or ends the run on an error.
func Must[T any](value T, err error) T {
	if err != nil {
		fail(err)
	}
	return value
}

// fail reports the line that called its caller.
func fail(err error) {
	if known := (failure{}); errors.As(err, &known) {
		panic(failure{err})
	}
	_, file, line, _ := runtime.Caller(2)
	panic(failure{fmt.Errorf("%s:%d: %w", filepath.Base(file), line, err)})
}

// Try returns the failure that made f end early, if there was one.
func Try(f func()) (err error) {
	defer func() {
		switch found := recover().(type) {
		case nil:
		case failure:
			err = found
		default:
			panic(found)
		}
	}()
	f()
	return nil
}

// Cleanup runs f in a deferred call. It only prints a failure of f, because the other
// deferred functions must still run.
func Cleanup(f func()) {
	if err := Try(f); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
	}
}

// Main runs a benchmark until it ends, fails, or is interrupted.
func Main(benchmark func(ctx context.Context)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Try(func() { benchmark(ctx) })
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

var begin = time.Now()

// Say prints progress for the user.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
}

// Patience bounds every wait. The deletion of 10,000 pods takes more than five minutes on two cores.
// A command with longer steps changes it before its first wait.
var Patience = 15 * time.Minute

// Until calls done at this interval until it returns true.
func Until(ctx context.Context, every time.Duration, what string, done func() bool) {
	waiting, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for !done() {
		select {
		case <-time.After(every):
		case <-waiting.Done():
			Check(fmt.Errorf("wait for %s: %w", what, waiting.Err()))
		}
	}
}

// AtOnce is the number of calls that Parallel runs at once.
const AtOnce = 16

// Parallel calls f for every number below n.
func Parallel(n int, f func(i int)) {
	var group errgroup.Group
	group.SetLimit(AtOnce)
	for i := range n {
		group.Go(func() error { return Try(func() { f(i) }) })
	}
	Check(group.Wait())
}
