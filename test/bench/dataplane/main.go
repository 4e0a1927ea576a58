//go:build linux

// Command dataplane measures packets on Networks beside packets on the wire between the nodes, and how fast
// agents follow the cluster. It has three nodes, each a network namespace with the real pod2-agent, which watches a
// real control plane. The command starts and removes all of them. It prints the targets and writes
// docs/performance-dataplane.md. `make bench-dataplane` runs it.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/test/bench/measure"
)

type options struct {
	root, out string
	only      *regexp.Regexp // the steps to measure; the page shows the others as not measured
	Rounds    int
	each      time.Duration // of a figure, for one path in one round
	Entries   int           // programmed without a watch
	Bound     int           // pods, one by one
	Moves     int
	Standing  int // pods of other nodes that the agents know at the end
}

func main() {
	o := options{Entries: 50_000}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "", "directory for performance-dataplane.md; defaults to docs, or with --only to none")
	flag.IntVar(&o.Rounds, "rounds", 7, "number of rounds")
	flag.DurationVar(&o.each, "each", 600*time.Millisecond, "duration of a figure, for one path in one round")
	flag.IntVar(&o.Bound, "bound", 100, "pods to bind one by one")
	flag.IntVar(&o.Moves, "moves", 15, "pods to move")
	flag.IntVar(&o.Standing, "standing", 10_000, "pods that the agents know when pods are bound")
	only := flag.String("only", "", "measure only steps whose names match this regular expression: entries, traffic, moves, restart, binding, new Network")
	flag.Parse()
	if o.out == "" && *only == "" {
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
	measure.Must(exec.LookPath("ethtool")) // the wires need it, after some minutes
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

// bench has the nodes, the API server, and the pods at the ends of each path.
type bench struct {
	report
	*measure.Cluster
	dir  string
	lab  *lab
	pods map[string]*pod
}

func (b *bench) measureAll(ctx context.Context) {
	for range b.Rounds {
		b.step("entries", b.measureEntries)
	}
	if !slices.ContainsFunc([]string{"traffic", "moves", "restart", "binding", "new Network"}, b.only.MatchString) {
		return // no other step needs the nodes and the API server
	}
	b.lab = newLab(b.dir, 3)
	defer b.lab.close()
	b.Cluster = measure.StartCluster(ctx, b.root, filepath.Join(b.dir, "api"), measure.Nodes{}, "crd/")
	defer b.Stop(ctx)
	controller := b.StartController(ctx, b.Kubeconfig(), nil, "--leader-elect=false", "--allow-cluster-overlap=10.0.0.0/8")
	defer controller.Stop()
	defer b.cleanUp(ctx)
	b.setUp(ctx)
	measure.Say("three agents are ready, pods are connected")
	b.step("traffic", func() measure.Results { return b.measureTraffic(ctx) })
	b.step("moves", func() measure.Results { return b.measureMoves(ctx) })
	b.step("restart few", func() measure.Results { return b.measureRestart(ctx) })
	b.step("binding", func() measure.Results { return b.measureBinding(ctx) })
	b.step("restart all", func() measure.Results { return b.measureRestart(ctx) })
	b.step("new Network", func() measure.Results { return b.measureNewNetworks(ctx, controller.Stop) })
}

// step runs f and adds its results under this name, unless --only excludes it.
func (b *bench) step(name string, f func() measure.Results) {
	if b.only.MatchString(name) {
		r := f()
		measure.Say("%s: %s", name, r)
		b.AddAll(r, name)
	}
}

// logs returns the last lines of the agents' logs, to find the cause of a failure.
func (b *bench) logs() string {
	var s strings.Builder
	files, _ := filepath.Glob(filepath.Join(b.dir, "node*", "agent.log"))
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
