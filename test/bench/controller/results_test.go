package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestFigure(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   string
	}{
		{nil, "-"},
		{[]float64{3}, "3.0"},
		{[]float64{3, 1, 2}, "2.0 (1.0-3.0)"},
		{[]float64{4, 1, 2, 3}, "2.5 (1.0-4.0)"},
	} {
		if got := figureOf(test.values).String(); got != test.want {
			t.Errorf("%v: %s, want %s", test.values, got, test.want)
		}
	}
}

// What was measured in one lap only is not averaged with laps in which it was not.
func TestWhatWasNotMeasuredDoesNotCount(t *testing.T) {
	r := &results{laps: []lap{{contender: pod2, n: 10, updated: &writes{put: 3, patch: 10}, recreated: 4}, {contender: pod2, n: 10, recreated: -1}, {contender: pod2, n: 10, recreated: -1}}}
	if got := r.figure(pod2, 10, updated); got.median != 13 {
		t.Errorf("updates take %v writes, want 13", got)
	}
	if got := r.seconds(pod2, 10, recreated); got.none || got.median < 0 {
		t.Errorf("recreated in %v", got)
	}
	if got := r.figure(pod2, 10, deleted); !got.none {
		t.Errorf("deletions take %v writes, and were not measured", got)
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 50, -1},
		{hundred[:1], 99, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred[:10], 99, 10},
	} {
		if got := percentile(test.sorted, test.p); got != test.want {
			t.Errorf("p%d of %d: %d, want %d", test.p, len(test.sorted), got, test.want)
		}
	}
}

// A pod that came, was Ready, and was replaced by one that is not.
func TestTimelineCountsPods(t *testing.T) {
	line := &timeline{ready: map[types.UID]bool{}, changed: make(chan struct{})}
	begin := time.Unix(0, 0)
	for i, event := range []watch.Event{
		{Type: watch.Added, Object: pod("a", false)},
		{Type: watch.Modified, Object: pod("a", true)},
		{Type: watch.Deleted, Object: pod("a", true)},
		{Type: watch.Added, Object: pod("b", false)},
	} {
		line.note(event, begin.Add(time.Duration(i)))
	}
	want := []point{{begin, 1, 0}, {begin.Add(1), 1, 1}, {begin.Add(2), 0, 0}, {begin.Add(3), 1, 0}}
	for i, p := range line.points {
		if p != want[i] {
			t.Errorf("point %d: %v, want %v", i, p, want[i])
		}
	}
	if got := line.first(begin.Add(1), func(p point) bool { return p.exist == 1 && p.ready == 0 }); got != 2 {
		t.Errorf("first reached after %d, want 2: what was before does not count", got)
	}
}

func pod(uid types.UID, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

// Nothing measured is no target reached.
func TestTargetsAreMissedWithoutFigures(t *testing.T) {
	r := &results{options: options{sizes: []int{2}}}
	if n := len(r.targets()); n != 18 {
		t.Errorf("%d targets", n)
	}
	for _, target := range r.targets() {
		if target.value <= target.max {
			t.Errorf("%s: %g <= %g", target.what, target.value, target.max)
		}
	}
}

// Each has its turn once a round, and not always after the same one.
func TestTurns(t *testing.T) {
	var rounds []string
	for round := range 3 {
		var turns []string
		for i := range 4 {
			turns = append(turns, fmt.Sprint(turn(i, round, 4)))
		}
		rounds = append(rounds, strings.Join(turns, " "))
	}
	if got, want := strings.Join(rounds, ", "), "0 1 2 3, 2 1 0 3, 2 3 0 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Each target is of whom it says it is, and by whom it says.
func TestTargetsAreRatiosOfTheRightContenders(t *testing.T) {
	r := &results{options: options{sizes: []int{100}}}
	for i, c := range contenders() {
		r.laps = append(r.laps, lap{contender: c.name, n: 100, exist: time.Duration(1<<i) * time.Second, ready: time.Duration(3<<i) * time.Second,
			created: writes{post: float64(100 * (i + 1))}, deleted: &writes{delete: float64(200 * (i + 1))}, updated: &writes{patch: float64(300 * (i + 1))},
			replaced: []time.Duration{time.Duration(i+1) * time.Millisecond}})
	}
	var got strings.Builder
	for _, target := range r.targets()[:10] {
		fmt.Fprintf(&got, "%s: %g\n", target.what, target.value)
	}
	want := `Pod2: all exist, by Deployment's time: 4
Pod2: all Ready, by Deployment's time: 4
Pod2: all Ready, by the raw client's time: 16
Pod2 on one Network: all Ready, by Deployment's time: 8
Pod2 on one Network: all Ready, by the time of the raw client with the same two writes: 16
Pod2 on one Network: API writes for each pod created: 6
Pod2 on one Network: API writes for each pod deleted: 12
Pod2: replacement p99, by the ReplicaSet controller's: 1.6666666666666667
Pod2 on one Network: replacement p99, by the ReplicaSet controller's: 2
Pod2: API writes for each pod updated in place: 15
`
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
}

// A sample is in the first area that any function of its stack is of, not in that of the
// function that happened to run.
func TestShareOfAProfile(t *testing.T) {
	function := func(name string) *profile.Location {
		return &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}
	}
	stack := func(value int64, names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, value}}
		for _, name := range names {
			s.Location = append(s.Location, function(name))
		}
		return s
	}
	p := &profile.Profile{Sample: []*profile.Sample{
		stack(10, "crypto/tls.(*Conn).Write", "k8s.io/client-go/rest.(*Request).Do", "github.com/pod2/pod2/pkg/reconcile.(*Reconciler).publish"),
		stack(20, "runtime.scanobject", "runtime.gcBgMarkWorker"),
		stack(30, "sort.Sort", "github.com/pod2/pod2/pkg/network.Diff", "github.com/pod2/pod2/pkg/reconcile.(*Reconciler).syncNetwork"),
		stack(40, "main.main"),
	}}
	want := map[string]float64{"garbage collection": 0.2, "decisions (the pure packages)": 0.3, "requests": 0.1, elsewhere: 0.4}
	if got := share(p, 1, controllerAreas); !maps.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
}
