// Command controller compares the Pod2 controller with those of Kubernetes and with a bare
// client. It starts and removes a local control plane, and writes its figures to
// docs/performance.md and docs/performance/*.svg. `make bench` runs it. --quick is for changes
// of this command.
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
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
	"k8s.io/client-go/dynamic"

	"github.com/pod2/pod2/test/bench/measure"
)

type options struct {
	root, out string
	Rounds    int
	sizes     []int
	larges    []int // sizes of one Pod2 on one Network, without other contenders
	Addresses int   // addresses that each allocator hands out in a round; 0 skips them
	Deletions int   // pods that each round deletes, to measure their replacement
	only      *regexp.Regexp
	Idle      time.Duration
	// Variant is a name for the controller in this checkout. If it is set, a row is added to the
	// file rows, and no page is written.
	Variant, rows string
	Full          bool
	// benchmarkTables is a file of benchstat for the page; benchmarks is the output of go test.
	benchmarkTables, benchmarks string
}

func main() {
	o := options{Rounds: 3, Addresses: 80, Deletions: 30, Idle: 20 * time.Second}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "docs", "directory for performance.md and performance/*.svg")
	flag.StringVar(&o.benchmarks, "benchmarks", "", "a file with the output of go test -bench")
	flag.StringVar(&o.benchmarkTables, "benchmark-tables", "", "a file with benchstat's tables of these benchmarks, for the page")
	begin := flag.Int64("begin", time.Now().Unix(), "start of the whole run, in seconds since 1970")
	only := flag.String("only", "", "measure only contenders whose names match this regular expression; the page shows the others as not measured")
	sizes := flag.String("sizes", "1000", "numbers of pods, separated by commas; targets are for the last")
	larges := flag.String("large", "2500,10000", "larger numbers of pods, separated by commas, for one contender and one round; empty skips them")
	flag.BoolVar(&o.Full, "full", false, "also measure the contenders that only this project has, and profiles")
	flag.IntVar(&o.Addresses, "addresses", o.Addresses, "number of addresses that each allocator hands out in a round; 0 skips them")
	flag.IntVar(&o.Rounds, "rounds", o.Rounds, "number of runs of each contender at each size")
	flag.StringVar(&o.Variant, "variant", "", "name of this checkout: only create and delete pods, and add one row with this name to --rows")
	flag.StringVar(&o.rows, "rows", "", "file for the row of --variant")
	quick := flag.Bool("quick", false, "one round of 60 pods, only to check that the benchmark works")
	flag.Parse()
	if *quick {
		o.Rounds, *sizes, *larges, o.Addresses, o.Deletions, o.Idle = 1, "60", "120", 40, 10, 5*time.Second
	}
	measure.Main(func(ctx context.Context) {
		o.sizes, o.larges = numbers(*sizes), numbers(*larges)
		o.only = measure.Must(regexp.Compile(*only))
		o.root = measure.Must(filepath.Abs(o.root))
		run(ctx, o, time.Unix(*begin, 0))
	})
}

// numbers in a list that is separated by commas.
func numbers(list string) (all []int) {
	for _, number := range strings.Split(list, ",") {
		if number != "" {
			all = append(all, measure.Must(strconv.Atoi(number)))
		}
	}
	return all
}

//go:embed page.md
var page string

func run(ctx context.Context, o options, begin time.Time) {
	b := &bench{report: report{options: o, Results: measure.Results{}, Machine: machine()}}
	b.readBenchmarks()
	dir := measure.Must(os.MkdirTemp("", "pod2-bench-"))
	defer os.RemoveAll(dir)
	// Every write of a pod passes the policies, and every request of the controller is authorized.
	b.Cluster = measure.StartCluster(ctx, o.root, dir, measure.Nodes{Count: b.Nodes(), PodsEach: measure.PodsPerNode}, "crd/", "artifacts/00-namespace.yaml", "artifacts/10-rbac.yaml",
		"artifacts/30-admission-policy.yaml", "artifacts/31-validation-policies.yaml")
	defer b.Stop(ctx)
	b.Kubernetes = measure.Must(b.Kube.Discovery().ServerVersion()).GitVersion
	b.workloads = measure.Must(dynamic.NewForConfig(b.Config))
	b.findComponents()
	b.kubeconfig = b.ServiceAccountKubeconfig(ctx, "pod2-system", "pod2-controller")
	if o.Variant == "" {
		b.findPeers(ctx)
		b.installKruise(ctx)
		b.installWhereabouts(ctx)
	}
	b.base = b.startController(ctx, nil, "--namespace="+b.newNamespace(ctx))
	defer b.base.Stop()
	b.controller = b.startController(ctx, nil)
	defer func() { b.controller.Stop() }()
	b.speed = measure.WatchSpeed(ctx)
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
	b.plot(filepath.Join(o.out, "performance"))
	fmt.Println("\nWritten:", path)
}

func machine() string {
	return fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// readBenchmarks reads the benchmarks of one sync, by the number of bound addresses or of
// replicas, if test/bench/bench.sh ran them.
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
			continue // not a line of a benchmark
		}
		seconds, _ := result.Value("sec/op")
		bytes, _ := result.Value("B/op")
		for of, format := range map[string]string{"sync": "SyncNetwork/bound=%d", "sync of replicas": "SyncPod2/available/replicas=%d", "sync of replicas with PVCs": "SyncPod2/claims/replicas=%d"} {
			var size int
			if _, err := fmt.Sscanf(string(result.Name), format, &size); err == nil {
				r.Add(seconds*1000, of, size, "ms")
				r.Add(bytes/1024, of, size, "KiB")
			}
		}
	}
	measure.Check(reader.Err())
	if len(r.Results) == 0 {
		measure.Check(fmt.Errorf("%s has no benchmark of a sync", file.Name()))
	}
}
