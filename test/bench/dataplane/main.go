//go:build linux

// Command dataplane measures the cost of Networks for packets, and of the agent for its node
// and the API server. It has three nodes, each a network namespace with the real pod2-agent,
// which watches a real control plane. The command starts and removes all of them. It prints
// one table and writes docs/performance-dataplane.md. `make bench-dataplane` runs it. --quick
// is for changes of this command.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/test/bench/measure"
)

type options struct {
	root, out string
	only      *regexp.Regexp // the steps to measure; the page shows the others as not measured
	Rounds    int
	each      time.Duration // of a throughput figure, for one path in one round
	Sizes     []int         // numbers of remote pods, programmed without a watch
	Networks  []int         // numbers of Networks on one node, programmed without a watch
	published int           // pods, one by one
	moves     int
	standing  int // pods of other nodes that the agents know at the end
	Watchers  int // in addition to the agents
	Changes   int // of pods, during the watch
	Replicas  int // of the Pod2 that measureLife creates
}

func main() {
	o := options{Rounds: 7, each: 600 * time.Millisecond, Sizes: []int{1_000, 10_000, 50_000}, Networks: []int{1, 10, 30},
		published: 300, moves: 15, standing: 10_000, Watchers: 200, Changes: 500, Replicas: 100}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "", "directory for performance-dataplane.md; defaults to docs, or with --quick or --only to none")
	quick := flag.Bool("quick", false, "measure little, only to check that the benchmark works")
	only := flag.String("only", "", "measure only steps whose names match this regular expression: entries, networks, traffic, publication, moves, restart, standing, fanout, life")
	flag.Parse()
	if *quick {
		o.Networks = []int{1, 3}
		o.Rounds, o.each, o.Sizes, o.published, o.moves, o.standing, o.Watchers, o.Changes, o.Replicas = 1, 200*time.Millisecond, []int{1_000}, 20, 2, 300, 10, 50, 10
	}
	if o.out == "" && !*quick && *only == "" {
		o.out = filepath.Join(o.root, "docs")
	}
	measure.Main(func(ctx context.Context) {
		o.only = measure.Must(regexp.Compile(*only))
		o.root = measure.Must(filepath.Abs(o.root))
		run(ctx, o)
	})
}

//go:embed page.md
var page string

func run(ctx context.Context, o options) {
	b := &bench{dir: measure.Must(os.MkdirTemp("", "pod2-bench-dataplane-")), pods: map[string]*pod{}}
	defer os.RemoveAll(b.dir)
	begin := time.Now()
	b.report = report{options: o, Results: measure.Results{}, Machine: machine(), Before: 100 * measure.Busy()}
	if err := measure.Try(func() { b.measureAll(ctx) }); err != nil {
		measure.Check(fmt.Errorf("%w\n%s", err, b.logs()))
	}
	b.Took, b.After = time.Since(begin).Round(time.Second), 100*measure.Busy()
	fmt.Print("\n", measure.Render(page, "targets", &b.report))
	if o.out != "" {
		path := filepath.Join(o.out, "performance-dataplane.md")
		measure.Check(os.WriteFile(path, []byte(measure.Render(page, "", &b.report)), 0o644))
		fmt.Println("\nWritten:", path)
	}
}

// logs returns the last lines of the agents' logs, to find the cause of a failure.
func (b *bench) logs() string {
	var s strings.Builder
	files, _ := filepath.Glob(filepath.Join(b.dir, "lab", "node*", "agent.log"))
	for _, file := range files {
		content, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&s, "%s ends with:\n%s\n", filepath.Base(filepath.Dir(file)), strings.Join(lines[max(0, len(lines)-5):], "\n"))
	}
	return s.String()
}

func machine() string {
	var u unix.Utsname
	measure.Check(unix.Uname(&u))
	return fmt.Sprintf("%d cores, Linux %s, %s/%s", runtime.NumCPU(), unix.ByteSliceToString(u.Release[:]), runtime.Version(), runtime.GOARCH)
}
