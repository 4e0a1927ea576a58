//go:build linux

// Command dataplane measures what Networks do to packets, and the agent to its node
// and the API server: on three nodes, each a network namespace with the real pod2-agent,
// which watches a real control plane that the command starts and removes. It prints one
// table and writes docs/performance-dataplane.md. `make bench-dataplane` runs it; --quick
// is for who changes it.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type options struct {
	root, out string
	only      *regexp.Regexp // of the steps; the page has the rest as not measured
	rounds    int
	each      time.Duration // of throughput, of one path in one round
	sizes     []int         // remote pods, as they are programmed without a watch
	networks  []int         // on one node, likewise
	published int           // one by one
	moves     int
	standing  int // pods of other nodes that the agents know at the end
	watchers  int // that share the API server with the agents
	changes   int // of pods, while they watch
	replicas  int // of a Pod2, whose lives are counted
}

func main() {
	o := options{rounds: 7, each: 600 * time.Millisecond, sizes: []int{1_000, 10_000, 50_000}, networks: []int{1, 10, 30},
		published: 300, moves: 15, standing: 10_000, watchers: 200, changes: 500, replicas: 100}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "", "where performance-dataplane.md goes; by default docs, and with --quick or --only nowhere")
	quick := flag.Bool("quick", false, "little of everything: says that it works, and nothing else")
	only := flag.String("only", "", "measure the steps whose names match this regular expression: entries, networks, traffic, publication, moves, restart, standing, fanout, life")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintf(os.Stderr, "dataplane: --only: %v\n", err)
		os.Exit(2)
	}
	if *quick {
		o.networks = []int{1, 3}
		o.rounds, o.each, o.sizes, o.published, o.moves, o.standing, o.watchers, o.changes, o.replicas = 1, 200*time.Millisecond, []int{1_000}, 20, 2, 300, 10, 50, 10
	}
	if o.out == "" && !*quick && *only == "" {
		o.out = filepath.Join(o.root, "docs")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "dataplane: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	b := &bench{options: o, results: results{options: o, machine: machine(), begin: time.Now(), busy: busy()}}
	if b.dir, err = os.MkdirTemp("", "pod2-bench-dataplane-"); err != nil {
		return fmt.Errorf("make a directory for the nodes: %w", err)
	}
	defer os.RemoveAll(b.dir)
	if err := b.measureAll(ctx); err != nil {
		return errors.Join(err, b.logs())
	}
	b.results.took = time.Since(b.results.begin)
	b.results.later = busy()
	fmt.Print("\n", b.results.targetTable())
	if o.out == "" {
		return nil
	}
	path := filepath.Join(o.out, "performance-dataplane.md")
	if err := os.WriteFile(path, []byte(b.results.page()), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	fmt.Println("\nWritten:", path)
	return nil
}

// logs are the last lines of the agents', for who has to know why it failed.
func (b *bench) logs() error {
	var errs []error
	files, _ := filepath.Glob(filepath.Join(b.dir, "lab", "node*", "agent.log"))
	for _, file := range files {
		content, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		errs = append(errs, fmt.Errorf("%s ends with:\n%s", filepath.Base(filepath.Dir(file)), strings.Join(lines[max(0, len(lines)-5):], "\n")))
	}
	return errors.Join(errs...)
}

func machine() string {
	var u unix.Utsname
	kernel := ""
	if unix.Uname(&u) == nil {
		kernel = ", Linux " + unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("%d cores%s, %s/%s", runtime.NumCPU(), kernel, runtime.Version(), runtime.GOARCH)
}

// busy is the share of the machine's CPU that is used while we do nothing for a while.
func busy() float64 {
	idle, all := cpuTimes()
	time.Sleep(2 * time.Second)
	idleLater, allLater := cpuTimes()
	if allLater == all {
		return 0
	}
	return 1 - (idleLater-idle)/(allLater-all)
}

// cpuTimes are those of all cores: proc(5), stat.
func cpuTimes() (idle, all float64) {
	content, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(content), "\n")
	for i, field := range strings.Fields(line)[1:] {
		ticks, _ := strconv.ParseFloat(field, 64)
		if i == 3 || i == 4 { // idle, waiting for a disk
			idle += ticks
		}
		all += ticks
	}
	return idle, all
}
