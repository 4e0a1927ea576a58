// Package measure is what the benchmarks share: a run that ends at its first failure, the
// figures of what it measured and the page that has them, processes, and the local
// control plane.
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

// failure ends a run. It carries the line that found it, as that of a test does.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Check ends the run if there is an error, as Fatal ends a test: all that was deferred is
// done. A benchmark that lost one figure has no use for the others.
func Check(err error) {
	if err != nil {
		fail(err)
	}
}

// Must returns the value, and ends the run if there is an error.
func Must[T any](value T, err error) T {
	if err != nil {
		fail(err)
	}
	return value
}

// fail is called by what its caller's caller called.
func fail(err error) {
	if known := (failure{}); errors.As(err, &known) {
		panic(failure{err})
	}
	_, file, line, _ := runtime.Caller(2)
	panic(failure{fmt.Errorf("%s:%d: %w", filepath.Base(file), line, err)})
}

// Try returns what made f end early, if anything did.
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

// Cleanup does f, for what is deferred: whatever else is deferred is still to be done, so
// that it only tells what made f end early.
func Cleanup(f func()) {
	if err := Try(f); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
	}
}

// Main runs a benchmark until it has ended, has failed, or is interrupted.
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

// Say something to who watches.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
}

// Patience bounds every wait.
const Patience = 5 * time.Minute

// Until asks every so often whether it is done.
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

// AtOnce is how many calls Parallel has under way.
const AtOnce = 16

// Parallel does f for every number below n.
func Parallel(n int, f func(i int)) {
	var group errgroup.Group
	group.SetLimit(AtOnce)
	for i := range n {
		group.Go(func() error { return Try(func() { f(i) }) })
	}
	Check(group.Wait())
}
