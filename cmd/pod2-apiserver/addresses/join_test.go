package addresses

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
	"github.com/pod2/pod2/test/chance"
)

// world has two replicas, which see the changes of each source in order, and the sources in any order.
type world struct {
	replicas [2]REST
	changes  [2][]func(REST) // of blocks and pods
	seen     [2][2]int
}

func newWorld(t *testing.T, dice *rand.Rand) *world {
	w := &world{replicas: [2]REST{replica(t), replica(t)}}
	for resourceVersion := uint64(20); resourceVersion < 60; resourceVersion++ {
		if dice.IntN(2) == 0 {
			w.changes[pods] = append(w.changes[pods], func(r REST) {
				r.apply(pods, resourceVersion, func() []string {
					return r.setPod([]string{"ns/web", "ns/db"}[resourceVersion%2], pod{"uid", fmt.Sprint("n", resourceVersion%3)})
				})
			})
			continue
		}
		var entries []string
		for last := range 3 {
			if holder := []string{"web", "db", ""}[dice.IntN(3)]; holder != "" {
				entries = append(entries, fmt.Sprint(last+2, " ", holder))
			}
		}
		w.changes[blocks] = append(w.changes[blocks], ledger(resourceVersion, entries...))
	}
	return w
}

// advance shows a replica the next change of a source. It returns false if there is none.
func (w *world) advance(replica, s int) bool {
	if w.seen[replica][s] == len(w.changes[s]) {
		return false
	}
	w.changes[s][w.seen[replica][s]](w.replicas[replica])
	w.seen[replica][s]++
	return true
}

// catchUp shows a replica all changes up to a version, as reach waits for them.
func (w *world) catchUp(replica int, at version) {
	for s := range w.changes {
		for w.replicas[replica].seen[s] < at.whole()[s] && w.advance(replica, s) {
			continue
		}
	}
}

// events are those that a watch from a version sends now.
func events(r REST, from version, matches func(*view.Address) bool) (all []watch.Event) {
	w := &watcher{cache: r.Cache, from: from, matches: matches}
	w.join()
	unread, _, _, _ := w.read()
	for _, e := range unread {
		if kind, a := w.see(e); a != nil {
			all = append(all, watch.Event{Type: kind, Object: a})
		}
	}
	return all
}

func less(t *testing.T, a, b string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return order < 0
}

// A client changes between two replicas, and loses its connection in the middle of events. It may ignore events with a
// version before that of the same Address. No version is before an earlier one, and at the end it has all Addresses.
func TestAClientThatComparesVersions(t *testing.T) {
	chance.ForSeeds(t, 2000, func(t *testing.T, dice *rand.Rand) {
		w := newWorld(t, dice)
		advance := func(times int) {
			for range dice.IntN(times) {
				w.advance(dice.IntN(2), dice.IntN(2))
			}
		}
		advance(60)
		matches := matcher("", &internalversion.ListOptions{FieldSelector: fields.ParseSelectorOrDie([]string{"", "spec.pod=web", "spec.pod!=web"}[dice.IntN(3)])})
		listed := list(t, w.replicas[0], internalversion.ListOptions{})
		at, has := listed.ResourceVersion, map[string]*view.Address{}
		for i := range listed.Items {
			if matches(&listed.Items[i]) {
				has[listed.Items[i].Name] = &listed.Items[i]
			}
		}
		follow := func(replica int, some bool) {
			from, err := parseVersion(at)
			if err != nil {
				t.Fatal(err)
			}
			w.catchUp(replica, from)
			sent := events(w.replicas[replica], from, matches)
			if some {
				sent = sent[:dice.IntN(len(sent)+1)]
			}
			for _, e := range sent {
				a := e.Object.(*view.Address)
				if less(t, a.ResourceVersion, at) {
					t.Fatalf("version %s follows %s", a.ResourceVersion, at)
				}
				at = a.ResourceVersion
				switch old := has[a.Name]; {
				case old != nil && less(t, at, old.ResourceVersion):
				case e.Type == watch.Deleted:
					delete(has, a.Name)
				default:
					has[a.Name] = a
				}
			}
		}
		for range 6 {
			advance(20)
			follow(dice.IntN(2), true)
		}
		for replica := range w.replicas {
			for s := range w.changes {
				for w.advance(replica, s) {
					continue
				}
			}
		}
		last := dice.IntN(2)
		follow(last, false)
		want := map[string]*view.Address{}
		for _, a := range w.replicas[last].sorted {
			if matches(a) {
				want[a.Name] = a
			}
		}
		if got, want := states(has), states(want); got != want {
			t.Errorf("the client has\n%s\nand the replica\n%s", got, want)
		}
	})
}

func states(addresses map[string]*view.Address) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		lines = append(lines, fmt.Sprintf("%s %s %s", name, addresses[name].Spec.Pod, addresses[name].Status.Node))
	}
	return strings.Join(lines, "\n")
}

// A client that lost its connection in the middle of joined events gets them again.
func TestContinueInTheMiddleOfJoinedEvents(t *testing.T) {
	one, other := replica(t), replica(t)
	for _, change := range []func(REST){ledger(20, "2 web", "3 web"), ledger(30, "2 web", "3 web", "4 db")} {
		change(one)
	}
	for _, change := range []func(REST){ledger(20, "2 web", "3 web"), scheduled(25, "web"), ledger(30, "2 web", "3 web", "4 db")} {
		change(other)
	}
	at := list(t, one, internalversion.ListOptions{}).ResourceVersion
	all := []string{"MODIFIED 10.1.0.2 web n1", "MODIFIED 10.1.0.3 web n1", "ADDED 10.1.0.4 db"}
	got, versions := after(t, other, internalversion.ListOptions{ResourceVersion: at})
	compare(t, got, all...)
	got, _ = after(t, other, internalversion.ListOptions{ResourceVersion: versions[1]})
	compare(t, got[:3], all...)
}

// A replica answers with a version that is not older than the one that a client asks for, although its own one has fewer
// changes.
func TestAListIsNotOlder(t *testing.T) {
	r := replica(t)
	asked := version{complete(30), complete(10), complete(10)}.String()
	r.saw(blocks, 30)
	if got := list(t, r, internalversion.ListOptions{ResourceVersion: asked}).ResourceVersion; got != asked {
		t.Errorf("the list has version %s, want %s", got, asked)
	}
}
