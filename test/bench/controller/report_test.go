package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/pod2/pod2/test/bench/measure"
)

// A target without a figure is missed.
func TestTargetsAreMissedWithoutFigures(t *testing.T) {
	r := &report{options: options{sizes: []int{2}}}
	if n := len(r.Targets()); n != 26 {
		t.Errorf("%d targets", n)
	}
	for _, target := range r.Targets() {
		if target.Reached() {
			t.Errorf("%s: %g", target.Name, target.Measured.Median)
		}
	}
}

// The page has a figure, or a sign that there is none, in each place.
func TestPage(t *testing.T) {
	r := &report{options: options{sizes: []int{2}, larges: []int{4}, Variant: "64"}, Results: measure.Results{}}
	r.Add(1.5, pod2OnOne, 2, "ready")
	r.Add(1, "standing", "start")
	r.Add(1, "profile", apiServer, pod2OnOne, elsewhere)
	got := measure.Render(page, "", r) + measure.Render(page, "variant", r)
	if before, _, _ := strings.Cut(got, "## Other projects"); strings.Contains(before, "NaN") {
		t.Errorf("a run of a part has no figure for all sentences:\n%s", before)
	}
	for _, want := range []string{
		"| Pod2 on one Network | 2 | - | 1.5 | - | - | - | - | - |\n", "| anything else | 1.0 |\n", "until all objects are processed | 1.0 s, - s |\n", "| 64 | 2 | 1.5 | - | - | - | - | - |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s, it is\n%s", want, got)
		}
	}
}

// Each contender has one turn in a round, and does not always follow the same one.
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

// Each target compares the contenders in its name.
func TestTargetsAreRatiosOfTheRightContenders(t *testing.T) {
	r := &report{options: options{sizes: []int{100}}, Results: measure.Results{}}
	for i, c := range contenders() {
		for j, time := range []string{"exist", "ready", "gone"} {
			r.Add(float64((i+1)*(i+j+1)), c.name, 100, time)
			r.Add(float64((2*j+1)<<i), c.name, 100, time, even)
		}
		r.Add(float64(i+1), c.name, 100, "created", "writes")
		r.Add(float64(i), c.name, 100, "created", "protocol")
		r.Add(float64(5*i), c.name, 100, "created", "slices")
		r.Add(float64(3*(i+1)), c.name, 100, "updated", "writes")
		r.Add(float64(i+1), c.name, 100, "replaced, ms")
	}
	var got strings.Builder
	for _, target := range r.Targets()[:12] {
		fmt.Fprintf(&got, "%s: %.4g (%.2g)\n", target.Name, target.Measured.Median, target.Plain)
	}
	want := `Pod2: all exist, relative to Deployment: 5.444 (0)
Pod2: all Ready, relative to Deployment: 16 (4.7)
Pod2: all Ready, relative to the raw client: 64 (28)
Pod2 on one Network: all Ready, relative to Deployment: 32 (6)
Pod2 on one Network: all Ready, relative to the raw client with the same two writes: 64 (12)
Pod2 on one Network: all gone, relative to Deployment: 32 (5.3)
Pod2 on one Network: writes of pods and AddressBlocks for each pod created: 7 (0)
Pod2 on one Network: writes of AddressSlices for each pod created: 35 (0)
Pod2 on one Network: writes of statuses, DNS names and events for each pod created: -34 (0)
Pod2: replacement p99, relative to the ReplicaSet controller: 2.333 (0)
Pod2 on one Network: replacement p99, relative to the ReplicaSet controller: 2.667 (0)
Pod2: API writes for each pod updated in place: 21 (0)
`
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
}

// The same work takes twice as long while the machine has half of its speed.
func TestTimesAtEqualSpeed(t *testing.T) {
	for _, slowness := range []float64{1, 2} {
		l := &lap{Results: measure.Results{}}
		l.Add(slowness, "piece of work until Ready")
		l.Add(3*slowness, "piece of work until gone")
		l.addTime(time.Duration(slowness*6*float64(time.Second)), "ready", "Ready")
		l.addTime(time.Duration(slowness*6*float64(time.Second)), "gone", "gone")
		if ready, gone := l.Median("ready", even), l.Median("gone", even); ready != 6 || gone != 2 {
			t.Errorf("slowness %g: %g until Ready, %g until gone", slowness, ready, gone)
		}
	}
}

// A sample belongs to the first area that contains any function of its stack, not to the area
// of the function that was running.
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
		stack(15, "sort.Sort", "github.com/pod2/pod2/pkg/pod2/dns.Diff", "github.com/pod2/pod2/pkg/reconcile.(*Reconciler).syncPod2"),
		stack(15, "sort.Sort", "github.com/pod2/pod2/pkg/network.Diff", "github.com/pod2/pod2/pkg/reconcile.(*Reconciler).syncNetwork"),
		stack(40, "main.main"),
	}}
	want := map[string]float64{"garbage collection": 0.2, "decisions (the pure packages)": 0.3, "requests": 0.1, elsewhere: 0.4}
	if got := share(p, controllerAreas); !maps.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
}
