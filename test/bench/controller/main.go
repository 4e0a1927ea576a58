// Command controller measures the controller against Kubernetes' own and against a bare
// client, on a local control plane that it starts and removes, and writes what it
// measured to docs/performance.md and docs/performance/*.svg. `make bench` runs it;
// --quick is for who changes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

type options struct {
	root, out string
	rounds    int
	sizes     []int
	large     int // 0: no run at that size
	deletions int // of single pods in each round, for the time to their replacement
	only      *regexp.Regexp
	idle      time.Duration
	// variant names the controller in this checkout, of which a row is written to rows
	// instead of a page.
	variant, rows string
	// Of go test: benchstat's tables, taken into the page, and what those are made of.
	benchmarkTables, benchmarks string
	begin                       int64 // of what the page calls the run, in seconds since 1970; 0: now
}

func main() {
	o := options{rounds: 3, sizes: []int{500, 2000}, large: 5000, deletions: 70, idle: time.Minute}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "docs", "where performance.md and performance/*.svg go")
	flag.StringVar(&o.benchmarks, "benchmarks", "", "a file with what go test -bench printed")
	flag.StringVar(&o.benchmarkTables, "benchmark-tables", "", "a file with what benchstat makes of it, to be taken into the page")
	flag.Int64Var(&o.begin, "begin", 0, "when the run began that this is a part of, in seconds since 1970")
	only := flag.String("only", "", "measure the contenders whose names match this regular expression; the page has the rest as not measured")
	flag.IntVar(&o.large, "large", o.large, "the pods of the last run, of two contenders; 0 for none")
	flag.IntVar(&o.rounds, "rounds", o.rounds, "how often each contender runs at each size")
	flag.StringVar(&o.variant, "variant", "", "what is special about this checkout: pods are brought up and down only, and one row with this name is added to --rows")
	flag.StringVar(&o.rows, "rows", "", "the file that the row of --variant is added to")
	quick := flag.Bool("quick", false, "one round of 60 pods: says that it works, and nothing else")
	flag.Parse()
	if *quick {
		o.rounds, o.sizes, o.large, o.deletions, o.idle = 1, []int{60}, 120, 10, 5*time.Second
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintf(os.Stderr, "controller: --only: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "controller: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	begin := time.Now()
	if o.begin > 0 {
		begin = time.Unix(o.begin, 0)
	}
	r := &results{options: o, machine: machine(), begin: begin}
	if err := r.readBenchmarks(); err != nil {
		return err
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	if err := b.measureAll(ctx, r); err != nil {
		return err
	}
	if o.variant != "" {
		return appendRow(o.rows, r.row(o.variant))
	}
	r.took = time.Since(begin)
	page := r.page()
	fmt.Print(r.table())
	if err := os.MkdirAll(filepath.Join(o.out, "performance"), 0o755); err != nil {
		return fmt.Errorf("make the directory of the plots: %w", err)
	}
	path := filepath.Join(o.out, "performance.md")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	for name, runs := range r.plots() {
		if err := plotRuns(filepath.Join(o.out, "performance", name+".svg"), runs); err != nil {
			return fmt.Errorf("plot %s: %w", name, err)
		}
	}
	fmt.Println("\nWritten:", path)
	return nil
}

func appendRow(path, row string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("add a row: %w", err)
	}
	_, err = file.WriteString(row)
	return errors.Join(err, file.Close())
}

func machine() string {
	return fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
