// Command scale creates very many pods with fixed addresses on one control plane, and checks
// that no address is used twice and that every pod keeps its own. `make bench-scale` runs it.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/dynamic"

	"github.com/pod2/pod2/test/bench/measure"
)

type options struct {
	root, out  string
	Pods       int
	Workloads  int // each has an equal share of the pods, and a Network of its own
	Deleted    int // pods that are deleted at random
	Seed       uint64
	GOMEMLIMIT string // of the controller
}

func main() {
	o := options{Pods: 100_000, Workloads: 10}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "", "directory for scale.md; empty: only print the page")
	flag.IntVar(&o.Pods, "pods", o.Pods, "number of pods")
	flag.IntVar(&o.Workloads, "workloads", o.Workloads, "number of Pod2s, at most 20; the pods are divided among them")
	flag.IntVar(&o.Deleted, "deleted", 0, "number of pods to delete at random; 0: a tenth of all")
	flag.StringVar(&o.GOMEMLIMIT, "gomemlimit", "off", "GOMEMLIMIT of the controller")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().Unix()), "seed of the choice of pods to delete")
	flag.Parse()
	if o.Deleted == 0 {
		o.Deleted = o.Pods / 10
	}
	measure.Patience = 3 * time.Hour // a step of 100,000 pods takes long
	measure.Main(func(ctx context.Context) {
		o.root = measure.Must(filepath.Abs(o.root))
		run(ctx, o)
	})
}

//go:embed page.md
var page string

// bench is a cluster whose pods are all in one namespace.
type bench struct {
	options
	*measure.Cluster
	workloads   *dynamic.DynamicClient
	kubeconfig  string // of the controller
	controller  *measure.Controller
	components  map[string]*measure.Process // without the controller, because it is restarted
	fleet       *fleet
	Machine     string
	Memory      float64 // GiB of the machine
	P50, P99    float64 // ms from the creation of a pod to its addresses
	PerSecond   float64 // addresses, while the pods are created
	Steps       []step
	Grown       []sample
	Start       coldStart
	Took        time.Duration
	AddressesOK int // pods whose addresses were compared at the end
}

// Each is the number of replicas of one Pod2.
func (b *bench) Each() int { return b.Pods / b.Workloads }

// Nodes have room for a tenth more pods than exist. Each takes ten times as many as usual: 1,000
// nodes would keep KWOK and the API server busy.
func (b *bench) Nodes() measure.Nodes { return measure.Nodes{Count: b.Pods/1000 + 3, PodsEach: 1100} }

func run(ctx context.Context, o options) {
	begin := time.Now()
	b := &bench{options: o, Machine: fmt.Sprintf("%d cores, %s, %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)}
	memory := measure.Must(measure.Must(procfs.NewDefaultFS()).Meminfo())
	b.Memory = float64(*memory.MemTotalBytes) / (1 << 30)
	measure.Say("seed %d", b.Seed)
	dir := measure.Must(os.MkdirTemp("", "pod2-bench-scale-"))
	defer os.RemoveAll(dir)
	b.Cluster = measure.StartCluster(ctx, o.root, dir, b.Nodes(), "crd/", "artifacts/00-namespace.yaml", "artifacts/10-rbac.yaml",
		"artifacts/30-admission-policy.yaml", "artifacts/31-validation-policies.yaml")
	defer b.Stop(ctx)
	measure.Say("%d nodes are Ready", b.Nodes().Count)
	b.workloads = measure.Must(dynamic.NewForConfig(b.Config))
	b.components = map[string]*measure.Process{thisProgram: measure.Self()}
	for _, name := range programs {
		b.components[name] = measure.Find(dir, name)
	}
	defer b.restartKWOK(ctx)()
	b.kubeconfig = b.ServiceAccountKubeconfig(ctx, "pod2-system", "pod2-controller")
	b.startController(ctx)
	defer func() { b.controller.Stop() }()
	b.NewNamespace(ctx, namespace)
	b.fleet = b.watchFleet(ctx)
	defer b.fleet.stop()

	b.createAll(ctx)
	b.coldStart(ctx)
	b.deleteSome(ctx)
	b.updateInPlace(ctx)
	b.compareAll(ctx)
	b.deleteAll(ctx)
	b.Took = time.Since(begin).Round(time.Second)

	text := measure.Render(page, "", b)
	fmt.Print(text)
	if o.out != "" {
		path := filepath.Join(o.out, "scale.md")
		measure.Check(os.WriteFile(path, []byte(text), 0o644))
		fmt.Println("\nWritten:", path)
	}
}

func (b *bench) startController(ctx context.Context) {
	b.controller = b.StartController(ctx, b.kubeconfig, []string{"GOMEMLIMIT=" + b.GOMEMLIMIT})
}
