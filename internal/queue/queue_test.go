package queue

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/pod2/pod2/pkg/reconcile"
)

// TestOrder adds keys 100 ms apart, waits, and takes all of them.
func TestOrder(t *testing.T) {
	for _, row := range []struct {
		name, keys string
		wait       time.Duration
		want       string
	}{
		{"first come, first served", "Pod/a-1 Pod2/a Network/n Pod2/b Pod/b-1", 0, "Pod/a-1 Pod2/a Network/n Pod2/b Pod/b-1"},
		{"a Pod2 that has waited is next", "Pod/a-1 Pod/a-2 Pod2/a", patience, "Pod2/a Pod/a-1 Pod/a-2"},
		{"a Pod2 that has not waited for long", "Pod/a-1 Pod/a-2 Pod2/a", patience - 1, "Pod/a-1 Pod/a-2 Pod2/a"},
		{"two Pod2s at once", "Pod/a-1 Pod/a-2 Pod2/a Pod2/b", time.Second, "Pod2/a Pod/a-1 Pod/a-2 Pod2/b"},
		{"a Pod2 whose turn it is does not overtake", "Pod2/a Pod/a-1 Pod/a-2 Pod2/b", time.Second, "Pod2/a Pod2/b Pod/a-1 Pod/a-2"},
		{"no Network overtakes", "Pod/a-1 Network/n", time.Minute, "Pod/a-1 Network/n"},
		{"a key named again keeps its turn", "Pod/a-1 Pod2/a Pod/a-1", 0, "Pod/a-1 Pod2/a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			clock := testingclock.NewFakeClock(time.Unix(0, 0))
			q := New(nil, clock)
			defer q.ShutDown()
			for i, key := range strings.Fields(row.keys) {
				if i > 0 {
					clock.Step(100 * time.Millisecond)
				}
				kind, name, _ := strings.Cut(key, "/")
				q.Add(reconcile.Key{Kind: kind, Name: name})
			}
			clock.Step(row.wait)
			var got []string
			for q.Len() > 0 {
				key, _ := q.Get()
				got = append(got, key.Kind+"/"+key.Name)
			}
			if got := strings.Join(got, " "); got != row.want {
				t.Errorf("keys %s, want %s", got, row.want)
			}
		})
	}
}

func TestOthersComeBetweenPod2sThatOvertake(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	q := New(nil, clock)
	defer q.ShutDown()
	for i := range 2 * between {
		q.Add(reconcile.Key{Kind: "Pod", Name: strconv.Itoa(i)})
	}
	q.Add(reconcile.Key{Kind: "Pod2", Name: "a"})
	q.Add(reconcile.Key{Kind: "Pod2", Name: "b"})
	clock.Step(time.Second)
	var places []int
	for place := 0; q.Len() > 0; place++ {
		if key, _ := q.Get(); key.Kind == "Pod2" {
			places = append(places, place)
		}
	}
	if want := []int{0, between + 1}; !slices.Equal(places, want) {
		t.Errorf("the Pod2s come at the places %v, want %v", places, want)
	}
}
