// Command controller measures the controller against Kubernetes' own and against a bare
// client, on a local control plane that it starts and removes, and writes what it
// measured to docs/performance.md and docs/performance/*.svg. `make bench` runs it;
// --quick is for who changes it.
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
	"time"

	"golang.org/x/perf/benchfmt"
	"k8s.io/client-go/dynamic"

	"github.com/pod2/pod2/test/bench/measure"
)

type options struct {
	root, out string
	Rounds    int
	sizes     []int
	Large     int // 0: no run at that size
	Deletions int // of single pods in each round, for the time to their replacement
	only      *regexp.Regexp
	Idle      time.Duration
	// Variant names the controller in this checkout, of which a row is written to rows
	// instead of a page.
	Variant, rows string
	// Of go test: benchstat's tables, taken into the page, and what those are made of.
	benchmarkTables, benchmarks string
}

func main() {
	o := options{Rounds: 3, sizes: []int{500, 2000}, Large: 5000, Deletions: 70, Idle: time.Minute}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "docs", "where performance.md and performance/*.svg go")
	flag.StringVar(&o.benchmarks, "benchmarks", "", "a file with what go test -bench printed")
	flag.StringVar(&o.benchmarkTables, "benchmark-tables", "", "a file with what benchstat makes of it, to be taken into the page")
	begin := flag.Int64("begin", time.Now().Unix(), "when the run began that this is a part of, in seconds since 1970")
	only := flag.String("only", "", "measure the contenders whose names match this regular expression; the page has the rest as not measured")
	flag.IntVar(&o.Large, "large", o.Large, "the pods of the last run, of two contenders; 0 for none")
	flag.IntVar(&o.Rounds, "rounds", o.Rounds, "how often each contender runs at each size")
	flag.StringVar(&o.Variant, "variant", "", "what is special about this checkout: pods are brought up and down only, and one row with this name is added to --rows")
	flag.StringVar(&o.rows, "rows", "", "the file that the row of --variant is added to")
	quick := flag.Bool("quick", false, "one round of 60 pods: says that it works, and nothing else")
	flag.Parse()
	if *quick {
		o.Rounds, o.sizes, o.Large, o.Deletions, o.Idle = 1, []int{60}, 120, 10, 5*time.Second
	}
	measure.Main(func(ctx context.Context) {
		o.only = measure.Must(regexp.Compile(*only))
		o.root = measure.Must(filepath.Abs(o.root))
		run(ctx, o, time.Unix(*begin, 0))
	})
}

//go:embed page.md
var page string

func run(ctx context.Context, o options, begin time.Time) {
	b := &bench{report: report{options: o, Results: measure.Results{}, Machine: machine()}}
	b.readBenchmarks()
	dir := measure.Must(os.MkdirTemp("", "pod2-bench-"))
	defer os.RemoveAll(dir)
	// The policies cost every write of a pod something, and what the controller may is asked at each request.
	b.Cluster = measure.StartCluster(ctx, o.root, dir, b.Nodes(), "crd/", "artifacts/00-namespace.yaml", "artifacts/10-rbac.yaml",
		"artifacts/30-admission-policy.yaml", "artifacts/31-validation-policies.yaml")
	defer b.Stop(ctx)
	b.workloads = measure.Must(dynamic.NewForConfig(b.Config))
	b.findComponents()
	b.writeServiceAccountKubeconfig(ctx)
	b.base = b.startController(ctx, nil, "--namespace="+b.newNamespace(ctx))
	defer b.base.Stop()
	b.controller = b.startController(ctx, nil)
	defer func() { b.controller.Stop() }()
	b.measureAll(ctx)
	if o.Variant != "" {
		measure.Append(o.rows, measure.Render(page, "variant", &b.report))
		return
	}
	b.Took = time.Since(begin).Round(time.Second)
	fmt.Print("\n", measure.Render(page, "times", &b.report))
	measure.Check(os.MkdirAll(filepath.Join(o.out, "performance"), 0o755))
	path := filepath.Join(o.out, "performance.md")
	measure.Check(os.WriteFile(path, []byte(measure.Render(page, "", &b.report)), 0o644))
	for _, n := range b.Plots() {
		plotRuns(filepath.Join(o.out, "performance", fmt.Sprintf("pods-%d.svg", n)), b.middle(n))
	}
	fmt.Println("\nWritten:", path)
}

func machine() string {
	return fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// readBenchmarks takes what test/bench/bench.sh had go test measure, if it did: of one
// sync by the number of bound addresses.
func (r *report) readBenchmarks() {
	if r.benchmarks == "" {
		return
	}
	r.Tables = string(measure.Must(os.ReadFile(r.benchmarkTables)))
	file := measure.Must(os.Open(r.benchmarks))
	defer file.Close()
	reader := benchfmt.NewReader(file, file.Name())
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue // a line that is none
		}
		var bound int
		if _, err := fmt.Sscanf(string(result.Name), "SyncNetwork/bound=%d", &bound); err != nil {
			continue
		}
		seconds, _ := result.Value("sec/op")
		bytes, _ := result.Value("B/op")
		r.Add(seconds*1000, "sync", bound, "ms")
		r.Add(bytes/1024, "sync", bound, "KiB")
	}
	measure.Check(reader.Err())
	if len(r.Results) == 0 {
		measure.Check(fmt.Errorf("%s has no BenchmarkSyncNetwork", file.Name()))
	}
}
