package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/dump"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/test/model"
)

// modelled is the Reconciler as the model runs it.
type modelled struct{ r *Reconciler }

func newModelled(stage *model.Stage, clock *clocktesting.FakePassiveClock) model.Controller {
	r, err := New(Clients{Kube: stage.Kube(), Sample: stage.Sample()}, Informers{
		Networks: stage.Networks(), Blocks: stage.Blocks(), Pod2s: stage.Pod2s(),
		Pods: stage.Pods(), StatefulSets: stage.StatefulSets(), Revisions: stage.Revisions(),
		Claims: stage.Claims(), Classes: stage.Classes(),
		CronTabs: stage.CronTabs(), CronJobs: stage.CronJobs(), Jobs: stage.Jobs(),
		Services: stage.Services(), EndpointSlices: stage.EndpointSlices(),
		Sidecars: stage.Sidecars(), VNIs: stage.VNIs(), Definitions: stage.Definitions(), Histories: stage.Histories(),
	}, model.Discard{}, clock, Settings{})
	if err != nil {
		panic(err)
	}
	return modelled{r}
}

func (m modelled) Sync(ctx context.Context, key model.Key) error {
	_, err := m.r.Sync(klog.NewContext(ctx, klog.Logger{}), Key{key.Kind, ns, key.Name})
	return err
}

func (m modelled) Remember(memory model.Memory) {
	clear(m.r.ownWrites.byKey)
	clear(m.r.writePods.unwatched.sightings)
	clear(m.r.over.byKey)
	clear(m.r.outages.byKey)
	m.r.kinds.history.of = map[string]*remembered{}
	if of, ok := memory.History.Value.(map[string]*remembered); ok {
		for path, known := range of {
			m.r.kinds.history.of[path] = &remembered{maps.Clone(known.versions), known.seen}
		}
		m.r.kinds.history.leads.Store(slices.ContainsFunc(slices.Collect(maps.Values(of)), func(known *remembered) bool { return known.seen != nil }))
	}
	clear(m.r.kinds.network.counts.ends) // no write waits for more of its kind: the model visits every state
	clear(m.r.kinds.pod2.counts.ends)
	clear(m.r.kinds.network.releases.ends)
	for _, w := range memory.Wrote {
		m.r.ownWrites.wrote(Key{w.Key.Kind, ns, w.Key.Name}, resource(w.Resource), w.Version)
	}
	for _, d := range memory.Deleted {
		m.r.ownWrites.goes(Key{d.Key.Kind, ns, d.Key.Name}, resource(d.Resource), d.Path, gone{uid: d.UID, version: d.Version})
	}
	for _, pod := range memory.Found {
		m.r.writePods.unwatched.sightings[types.NamespacedName{Namespace: ns, Name: pod.Name}] = sighting[*corev1.Pod]{pod, m.r.clock.Now().Add(sightingTTL)}
	}
	for _, o := range memory.Over {
		m.r.over.confirmed(Key{o.Key.Kind, ns, o.Key.Name}, network.PodRef{Name: o.Pod, UID: o.UID})
	}
}

func (m modelled) Memory() model.Memory {
	var memory model.Memory
	for key, w := range m.r.ownWrites.byKey {
		for res, version := range w.versions {
			memory.Wrote = append(memory.Wrote, model.Wrote{Key: model.Key{Kind: key.Kind, Name: key.Name}, Resource: string(res), Version: version})
		}
		for res, paths := range w.gone {
			for path, g := range paths {
				memory.Deleted = append(memory.Deleted, model.Deleted{Key: model.Key{Kind: key.Kind, Name: key.Name}, Resource: string(res), Path: path, UID: g.uid, Version: g.version})
			}
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(m.r.writePods.unwatched.sightings), func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) }) {
		memory.Found = append(memory.Found, m.r.writePods.unwatched.sightings[name].object)
	}
	for key, refs := range m.r.over.byKey {
		for ref := range refs {
			memory.Over = append(memory.Over, model.Over{Key: model.Key{Kind: key.Kind, Name: key.Name}, Pod: ref.Name, UID: ref.UID})
		}
	}
	if of := m.r.kinds.history.of; len(of) > 0 {
		memory.History = model.History{Text: dump.ForHash(of), Value: maps.Clone(of)}
	}
	return memory
}

func (m modelled) Watched(blocks []*v1.AddressBlock) {
	for _, block := range blocks {
		m.r.kinds.history.blockChanged(block)
	}
}

func slimForModel(value metav1.Object) metav1.Object {
	slim, _ := SlimPod(value)
	return slim.(metav1.Object)
}

// The search visits every state of these configurations, which are small enough.
func TestModel(t *testing.T) {
	oneAtOnce(t)
	for _, config := range model.Small() {
		t.Run(config.Name, func(t *testing.T) {
			if r := search(config, mostStates); r.Violation != "" {
				t.Errorf("%s\n%s", r.Violation, strings.Join(r.Trace, "\n"))
			}
		})
	}
}

// The search finds a failure where the README says that there is no fence. A search that
// does not find it would prove nothing.
func TestModelFindsWhatIsNotFenced(t *testing.T) {
	oneAtOnce(t)
	for _, config := range model.Refuted() {
		t.Run(config.Name, func(t *testing.T) {
			if r := search(config, mostStates); !strings.HasPrefix(r.Violation, "S1: ") {
				t.Errorf("found %q", r.Violation)
			}
		})
	}
}

// mostStates is the limit for a small configuration: a bug in the controller can make it
// endless.
const mostStates = 500_000

func search(config *model.Config, most int) *model.Report {
	r := model.Search(config, newModelled, slimForModel, most)
	fmt.Printf("%-16s %s\n", config.Name, r)
	return r
}

// oneAtOnce makes a sync a function of its view and the answers. With concurrent calls, the
// scheduler decides which of them had begun before one failed.
func oneAtOnce(t *testing.T) {
	was := atOnce
	atOnce = 1
	t.Cleanup(func() { atOnce = was })
}
