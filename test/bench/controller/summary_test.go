package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pod2/pod2/test/bench/measure"
)

func measured() *report {
	r := &report{options: options{sizes: []int{10}}, Results: measure.Results{}}
	for i, c := range contenders() {
		r.Add(float64(i+1), c.name, 10, "ready")
		r.Add(float64(2*(i+1)), c.name, 10, "ready", even)
		r.Add(float64(10*(i+1)), c.name, 10, "updated", "writes")
	}
	for i, name := range []string{pod2Each, "Spiderpool", "whereabouts", "whereabouts, fast IPAM"} {
		r.Add(float64(100+i), "addresses", name, "per second")
	}
	return r
}

// The sentences name the contenders whose figures they have.
func TestSummary(t *testing.T) {
	want := `10 pods are Ready after 8.0 s if a Pod2 creates them with an address each, 7.0 s without addresses, 3.0 s if a Deployment does, and 5.0 s if a CloneSet of OpenKruise does.
To change the image of all these pods in place, Pod2 needs 70.0 API writes for each pod, and OpenKruise 50.0 (CloneSet) or 60.0 (StatefulSet).
When sixteen pods at once wait for addresses, Pod2 gives them 100 in a second, Spiderpool 101, and whereabouts 102, or 103 with its fast IPAM.`
	if got := strings.Join(measured().Summary(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A chart has a bar with the name of each contender.
func TestChart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chart.svg")
	measured().charts()["addresses.svg"].draw(path)
	drawn := string(measure.Must(os.ReadFile(path)))
	for _, name := range []string{pod2Each, "Spiderpool", "whereabouts, fast IPAM"} {
		if !strings.Contains(drawn, ">"+name+"<") {
			t.Errorf("no bar of %s", name)
		}
	}
}
