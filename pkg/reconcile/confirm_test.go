package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

// holders returns a Network and its AddressBlock, bound to pods p-00, p-01 and so on.
func holders(n int) []runtime.Object {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf("10.1.0.%d p-%02d Bound", i+2, i))
	}
	return []runtime.Object{newNetwork("blue"), newBlock("blue", entries...)}
}

// reads returns the reads of pods; it counts equal neighbours.
func reads(calls string) string {
	var kinds []string
	for line := range strings.Lines(calls) {
		switch {
		case strings.HasPrefix(line, "get pods"):
			kinds = append(kinds, "get")
		case strings.HasPrefix(line, "list pods"):
			kinds = append(kinds, strings.TrimSpace(line))
		}
	}
	var text []string
	for len(kinds) > 0 {
		n := slices.IndexFunc(kinds, func(k string) bool { return k != kinds[0] })
		if n < 0 {
			n = len(kinds)
		}
		text = append(text, fmt.Sprintf("%d x %s", n, kinds[0]))
		kinds = kinds[n:]
	}
	return strings.Join(text, "\n")
}

func TestConfirmOverReadsPodsOneByOneOrAllInPages(t *testing.T) {
	for _, row := range []struct {
		pods, others, pageSize int
		want                   string
	}{
		{1, 0, 0, "1 x get"},
		{49, 0, 0, "49 x get"},
		{50, 0, 0, "1 x list pods limit=500"}, // without a selector: a user can remove a label from a live pod
		{50, 5, 2, "1 x list pods limit=500\n1 x list pods limit=500 continue=2\n1 x list pods limit=500 continue=4"},
		{50, 600, 99, "1 x list pods limit=500\n50 x get"}, // 501 are left
		{50, 600, 100, "1 x list pods limit=500\n1 x list pods limit=500 continue=100\n1 x list pods limit=500 continue=200\n" +
			"1 x list pods limit=500 continue=300\n1 x list pods limit=500 continue=400\n1 x list pods limit=500 continue=500"},
	} {
		t.Run(fmt.Sprintf("%d of %d others", row.pods, row.others), func(t *testing.T) {
			w := newWorld(t, holders(row.pods)...)
			for i := range row.others {
				w.add(newPod(fmt.Sprintf("other-%d unlabelled", i)))
			}
			w.server.PageSize = row.pageSize
			calls, err := w.sync(KindNetwork, "blue")
			if err != nil {
				t.Fatal(err)
			}
			same(t, reads(calls), row.want)
		})
	}
}

// A pod on the last page counts like one on the first.
func TestConfirmOverReadsEveryPage(t *testing.T) {
	w := newWorld(t, holders(60)...)
	for i := range 60 {
		w.add(newPod(fmt.Sprintf("p-%02d unlabelled", i)))
	}
	w.server.PageSize = 15
	if _, err := w.sync(KindNetwork, "blue"); !errors.Is(err, ErrStale) {
		t.Fatalf("not stale: %v", err)
	}
	if n := len(w.r.writePods.unwatched.sightings); n != 60 {
		t.Errorf("%d pods found, want 60", n)
	}
}

func TestConfirmOver(t *testing.T) {
	const rests = "patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102"
	for _, row := range []struct {
		name, pod, want string
	}{
		{"gone", "", rests},
		{"alive, and its label was removed", "p-00 unlabelled", "nothing: stale"},
		{"terminating", "p-00 unlabelled going", "nothing: stale"},
		{"failed", "p-00 unlabelled phase=Failed", rests},
		{"succeeded", "p-00 unlabelled phase=Succeeded", rests},
		{"another pod with this name", "p-00 unlabelled uid=other", rests},
	} {
		for _, bound := range []int{1, confirmListFrom} {
			t.Run(fmt.Sprintf("%s, one of %d", row.name, bound), func(t *testing.T) {
				w := newWorld(t, holders(bound)...)
				if row.pod != "" {
					w.add(newPod(row.pod))
				}
				calls, err := w.sync(KindNetwork, "blue")
				got, _, _ := strings.Cut(onlyWrites(calls), "\n")
				if errors.Is(err, ErrStale) && got == "" {
					got = "nothing: stale"
				}
				same(t, got, row.want)
			})
		}
	}
}

// Our watch may never show the pod. The next sync must see it, or the Network would never
// continue.
func TestAPodFoundAliveIsSeenByTheNextSync(t *testing.T) {
	w := newWorld(t, holders(2)...)
	w.add(newPod("p-01 unlabelled"))
	if _, err := w.sync(KindNetwork, "blue"); !errors.Is(err, ErrStale) {
		t.Fatalf("not stale: %v", err)
	}
	if _, err := w.sync(KindNetwork, "blue"); err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, e := range stored[*v1.AddressBlock](w, "blue-10.1.0.0").Spec.Entries {
		states = append(states, e.Pod+" "+string(e.State))
	}
	same(t, strings.Join(states, ", "), "p-00 Resting, p-01 Bound")
}

// One for each sync would mean that the first is forgotten before the last is found.
func TestAllPodsFoundAliveAreRememberedAtOnce(t *testing.T) {
	w := newWorld(t, holders(3)...)
	for _, name := range []string{"p-00", "p-01", "p-02"} {
		w.add(newPod(name + " unlabelled"))
	}
	if _, err := w.sync(KindNetwork, "blue"); !errors.Is(err, ErrStale) {
		t.Fatalf("not stale: %v", err)
	}
	calls, err := w.sync(KindNetwork, "blue")
	if err != nil {
		t.Fatal(err)
	}
	same(t, reads(calls), "")
}

func TestAPodFoundAliveIsLookedForAgain(t *testing.T) {
	w := newWorld(t, holders(1)...)
	w.add(newPod("p-00 unlabelled"))
	if _, err := w.sync(KindNetwork, "blue"); !errors.Is(err, ErrStale) {
		t.Fatalf("not stale: %v", err)
	}
	result, err := w.r.Sync(t.Context(), blue)
	if err != nil || result.RequeueAfter != sightingTTL {
		t.Errorf("again in %s, error %v; want %s", result.RequeueAfter, err, sightingTTL)
	}
}

func TestConfirmOverPassesOnAnErrorOfTheRead(t *testing.T) {
	w := newWorld(t, holders(1)...)
	broken := errors.New("etcd is down")
	w.refuse = refusing("get pods", broken)
	calls, err := w.sync(KindNetwork, "blue")
	if !says(err, broken) || strings.Contains(calls, "addressblocks") {
		t.Errorf("error %v, calls:\n%s", err, calls)
	}
}

// Terminated is final. If each failure meant to ask again, thirty pods would hardly ever be
// confirmed by an API server that refuses some requests. The refused pod is the last one,
// because no request begins after a failure.
func TestConfirmOverAsksAgainOnlyForWhatWasNotAnswered(t *testing.T) {
	w := newWorld(t, holders(3)...)
	w.refuse = refusing("get pods p-02", errors.New("etcd is down"))
	if _, err := w.sync(KindNetwork, "blue"); err == nil {
		t.Fatal("no error")
	}
	w.refuse = nil
	w.catchUp()
	calls, err := w.sync(KindNetwork, "blue")
	if err != nil {
		t.Fatal(err)
	}
	if got := reads(calls); got != "1 x get" {
		t.Errorf("asked again for:\n%s", calls)
	}
}

// The memory lasts for one decision: the next one asks again.
func TestConfirmOverForgetsWhatIsDone(t *testing.T) {
	w := newWorld(t, holders(3)...)
	if _, err := w.sync(KindNetwork, "blue"); err != nil {
		t.Fatal(err)
	}
	if left := len(w.r.over.byKey); left != 0 {
		t.Errorf("%d keys are remembered", left)
	}
}

// A user may have edited an entry to name one pod and the UID of another.
func TestConfirmOverRemembersNameAndUID(t *testing.T) {
	w := newWorld(t, newPod("b unlabelled"), newPod("c unlabelled"))
	b, c := network.PodRef{Name: "b", UID: "uid-of-b"}, network.PodRef{Name: "c", UID: "uid-of-c"}
	for _, refs := range [][]network.PodRef{{{Name: "a", UID: b.UID}, c}, {b}} {
		if err := w.r.over.confirm(t.Context(), blue, refs); !errors.Is(err, ErrStale) {
			t.Errorf("%v: not stale: %v", refs, err)
		}
	}
}
