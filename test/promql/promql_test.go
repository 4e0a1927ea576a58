package promql

import (
	"fmt"
	"testing"
)

func TestSeries(t *testing.T) {
	t.Parallel()
	target := Target{"j", "i", []string{
		"# HELP a\n# TYPE a counter\na{b=\"c } d\"} 1e+06\ngone 1\n",
		"a{b=\"c } d\"} 1.5e+06\nnew{le=\"+Inf\"} NaN\n",
	}}
	want := `[{a{b="c } d",job="j",instance="i"} 1000000 1500000} {gone{job="j",instance="i"} 1} {new{le="+Inf",job="j",instance="i"} _ NaN}]`
	if got := fmt.Sprint(target.series()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPanels(t *testing.T) {
	t.Parallel()
	panels, err := Panels("../../artifacts/dashboard/dashboard.json")
	if err != nil || len(panels) < 15 {
		t.Fatalf("%d panels, %v", len(panels), err)
	}
	if got, want := fmt.Sprint(panels[1]), "{Controller Syncs sum by (result) (rate(pod2_sync_total[5m]))}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
