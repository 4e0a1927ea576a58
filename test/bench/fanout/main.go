//go:build linux

// Command fanout counts the events that the agents of 500 nodes get while pods start, rest and
// are replaced. Agents are only their watches here: the program counts the events and bytes of
// each, and decodes none. `make bench-fan-out` runs it.
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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/bench/measure"
)

// lifetimes is how many pods of 150,000 end and are replaced in each second, if each lives for
// a day.
const lifetimes = 150_000 / 86_400.0

type options struct {
	root, out    string
	Agents, Pods int
	Churn, Idle  time.Duration
	Rests        int
}

func main() {
	// The API server sends each watch a bookmark about once a minute. A shorter rest might count none of them.
	o := options{Agents: 500, Pods: 2000, Churn: time.Minute, Idle: 2 * time.Minute}
	flag.StringVar(&o.root, "root", ".", "the checkout, with bin/ built")
	flag.StringVar(&o.out, "out", "", "directory for fan-out.md; empty: only print the figures")
	flag.IntVar(&o.Agents, "agents", o.Agents, "number of nodes, each with an agent")
	flag.IntVar(&o.Pods, "pods", o.Pods, "number of pods")
	flag.DurationVar(&o.Churn, "churn", o.Churn, "how long pods are replaced")
	flag.IntVar(&o.Rests, "reuse-delay", o.Rests, "seconds that a freed address rests")
	flag.Parse()
	measure.Main(func(ctx context.Context) {
		o.root = measure.Must(filepath.Abs(o.root))
		run(ctx, o)
	})
}

//go:embed page.md
var page string

// phase has the figures of one phase.
type phase struct {
	Took                     time.Duration
	Events, Bookmarks, Bytes float64       // that all agents got; Bytes are those of both
	Writes                   float64       // of AddressSlices
	CPU                      time.Duration // of the API server
}

// EventsAt is the number of events per second for so many agents.
func (p phase) EventsAt(agents, measured int) float64 {
	return p.Events / p.Took.Seconds() * float64(agents) / float64(measured)
}

// BookmarksAt is the number of bookmarks per second for so many agents.
func (p phase) BookmarksAt(agents, measured int) float64 {
	return p.Bookmarks / p.Took.Seconds() * float64(agents) / float64(measured)
}

// MBAt is the number of megabytes per second for so many agents.
func (p phase) MBAt(agents, measured int) float64 {
	return p.Bytes / 1e6 / p.Took.Seconds() * float64(agents) / float64(measured)
}

// Cores is the CPU time of the API server per second.
func (p phase) Cores() float64 { return p.CPU.Seconds() / p.Took.Seconds() }

type bench struct {
	options
	*measure.Cluster
	apiserver *measure.Process
	Machine   string

	Start, Rest, Replace        phase // with AddressSlices
	RestWithout, ReplaceWithout phase
	List, ListWithout           float64 // MB of the first lists of one agent
}

// WritesPerPod is the number of writes of AddressSlices for each pod that starts.
func (b *bench) WritesPerPod() float64 { return b.Start.Writes / float64(b.Pods) }

// EachEvents and EachMB are the events and megabytes that one agent gets in a phase.
func (b *bench) EachEvents(p phase) float64 { return p.Events / float64(b.Agents) }
func (b *bench) EachMB(p phase) float64     { return p.Bytes / 1e6 / float64(b.Agents) }

// Rate is how many pods are replaced in a second.
func (b *bench) Rate() float64 { return lifetimes }

// Times is how many times more agents the large cluster has.
func (b *bench) Times() float64 { return 5000 / float64(b.Agents) }

func run(ctx context.Context, o options) {
	b := &bench{options: o, Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version())}
	dir := measure.Must(os.MkdirTemp("", "pod2-bench-fanout-"))
	defer os.RemoveAll(dir)
	b.Cluster = measure.StartCluster(ctx, o.root, dir, measure.Nodes{Count: o.Agents, PodsEach: measure.PodsPerNode}, "crd/", "artifacts/30-admission-policy.yaml")
	defer b.Stop(ctx)
	b.apiserver = measure.Find(dir, "kube-apiserver")
	controller := b.StartController(ctx, b.Kubeconfig(), nil, "--leader-elect=false")
	defer controller.Stop()
	b.NewNamespace(ctx, space)
	b.createNetwork(ctx)

	agents := b.startAgents(ctx, sliced)
	measure.Say("%d agents watch AddressSlices", b.Agents)
	b.Start = b.measure(ctx, agents, func() { b.scaleUp(ctx) })
	measure.Say("%d pods run: %.4f writes of AddressSlices for each", b.Pods, b.Start.Writes/float64(b.Pods))
	time.Sleep(5 * time.Second) // the last write may follow the last pod by a second
	b.Rest = b.measure(ctx, agents, func() { sleep(ctx, b.Idle) })
	b.Replace = b.measureReplace(ctx, agents)
	b.List = agents.lists() / 1e6
	agents.stop()

	agents = b.startAgents(ctx, everything)
	measure.Say("%d agents watch all pods, Networks and Nodes", b.Agents)
	b.RestWithout = b.measure(ctx, agents, func() { sleep(ctx, b.Idle) })
	b.ReplaceWithout = b.measureReplace(ctx, agents)
	b.ListWithout = agents.lists() / 1e6
	agents.stop()

	text := measure.Render(page, "", b)
	fmt.Print(text)
	if o.out != "" {
		path := filepath.Join(o.out, "fan-out.md")
		measure.Check(os.WriteFile(path, []byte(text), 0o644))
		fmt.Println("\nWritten:", path)
	}
}

// measure the events of all agents while f runs, and for two seconds after it.
func (b *bench) measure(ctx context.Context, agents *agents, f func()) phase {
	begin, events, bookmarks, bytes := time.Now(), agents.events.Load(), agents.bookmarks.Load(), agents.bytes.Load()
	writes, cpu := b.writes(ctx), b.apiserver.CPU()
	f()
	p := phase{Took: time.Since(begin)}
	sleep(ctx, 2*time.Second)
	p.Events, p.Bookmarks, p.Bytes = float64(agents.events.Load()-events), float64(agents.bookmarks.Load()-bookmarks), float64(agents.bytes.Load()-bytes)
	p.Writes, p.CPU = b.writes(ctx)-writes, b.apiserver.CPU()-cpu
	return p
}

// measureReplace takes for its time that of so many pods at the exact rate: a busy machine deletes fewer of them. The
// events of the last ones come after it.
func (b *bench) measureReplace(ctx context.Context, agents *agents) phase {
	replaced := 0
	p := b.measure(ctx, agents, func() { replaced = b.replace(ctx) })
	p.Took = time.Duration(float64(replaced) / lifetimes * float64(time.Second))
	return p
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		measure.Check(ctx.Err())
	}
}

// writes of AddressSlices that the API server has counted.
func (b *bench) writes(ctx context.Context) float64 {
	m := measure.ParseMetrics(measure.Must(b.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)))
	return m.Sum("apiserver_request_total", func(l map[string]string) bool {
		return l["resource"] == "addressslices" && (l["verb"] == "POST" || l["verb"] == "PUT" || l["verb"] == "PATCH" || l["verb"] == "DELETE")
	})
}

// replace pods one by one for a while, at the rate of 150,000 pods, and return their number.
func (b *bench) replace(ctx context.Context) (replaced int) {
	pods := measure.Must(b.Kube.CoreV1().Pods(space).List(ctx, metav1.ListOptions{})).Items
	end := time.Now().Add(b.Churn)
	every := time.NewTicker(time.Duration(float64(time.Second) / lifetimes))
	defer every.Stop()
	for ; time.Now().Before(end); replaced++ {
		p := pods[(replaced*997)%len(pods)]
		measure.Check(b.Kube.CoreV1().Pods(space).Delete(ctx, p.Name, *metav1.NewPreconditionDeleteOptions(string(p.UID))))
		select {
		case <-every.C:
		case <-ctx.Done():
			measure.Check(ctx.Err())
		}
	}
	b.await(ctx)
	return replaced
}

// await until all pods are Ready.
func (b *bench) await(ctx context.Context) {
	measure.Until(ctx, 200*time.Millisecond, "all pods", func() bool {
		d := measure.Must(b.Kube.AppsV1().Deployments(space).Get(ctx, "web", metav1.GetOptions{}))
		return int(d.Status.ReadyReplicas) == b.Pods && d.Status.Replicas == d.Status.ReadyReplicas && d.Status.ObservedGeneration == d.Generation
	})
}

func (b *bench) nodes(ctx context.Context) []corev1.Node {
	return measure.Must(b.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})).Items
}
