//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// comparing is an agent that compares entries every 30 seconds.
func comparing() (*agent, *plugged) {
	state := cluster("10.0.0.1")
	a, p := newTestAgent(&memory{}, &state), &plugged{}
	a.ports, a.options.resync = p, 30*time.Second
	return a, p
}

// Entries are compared in full at each resync, and not more often than one percent of a core allows.
func TestFullComparisons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p := comparing()
		for _, step := range []struct{ passes, takes time.Duration }{
			{0, time.Second}, {time.Second, 0}, {40 * time.Second, 0}, {60 * time.Second, time.Millisecond}, {29 * time.Second, 0}, {2 * time.Second, 0},
		} {
			time.Sleep(step.passes)
			p.took = step.takes
			if err := a.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := strings.Join(p.synced, " "), "true false false true false true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// waiting ports wait for an Add before they compare.
type waiting struct{ plugged }

func (p *waiting) Sync(full bool) (int, time.Duration, error) {
	time.Sleep(5 * time.Second)
	return p.plugged.Sync(full)
}

// The time that a comparison waits for others does not delay the next.
func TestWaitingDelaysNoComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := comparing()
		p := &waiting{plugged{took: time.Millisecond}}
		a.ports = p
		for range 2 {
			if err := a.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		if got, want := strings.Join(p.synced, " "), "true true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// While ports cannot be synced, the attempts use at most a tenth of a core, however many events come.
func TestFailedComparisons(t *testing.T) {
	for _, tt := range []struct{ takes, want time.Duration }{
		{time.Millisecond, time.Second}, {2 * time.Second, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, p := comparing()
			p.took, p.err = tt.takes, errors.New("refused")
			start := time.Now()
			_ = a.sync(t.Context())
			for len(p.synced) == 1 {
				time.Sleep(time.Second / 4)
				_ = a.sync(t.Context())
			}
			if got := time.Since(start); got != tt.want {
				t.Errorf("one that takes %s is retried after %s, want %s", tt.takes, got, tt.want)
			}
		})
	}
}

// Until the next attempt, the error of the last one makes the node unready.
func TestFailedComparisonIsReported(t *testing.T) {
	a, p := comparing()
	p.err = errors.New("refused")
	_ = a.sync(t.Context())
	_ = a.sync(t.Context())
	if err := a.ready(); !errors.Is(err, p.err) || len(p.synced) != 1 {
		t.Errorf("got %v after %d attempts", err, len(p.synced))
	}
}

// A sync that failed before the resync is due compares and attaches everything when it is retried.
func TestRetryIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, p := comparing()
		for _, err := range []error{nil, errors.New("refused"), nil, nil} {
			p.err = err
			_ = a.sync(t.Context())
			time.Sleep(time.Second)
		}
		if got, want := strings.Join(p.synced, " "), "true false true false"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Only a difference of tables that were complete before is a change of another program.
func TestRepairedEntries(t *testing.T) {
	for _, tt := range []struct {
		unready error
		want    string
	}{
		{errors.New("an entry could not be written"), ""},
		{nil, `pod2_agent_repairs_total [name:"kind" value:"entry"] 3`},
	} {
		a, p := comparing()
		r := registered(a)
		p.changes, p.unready = 3, tt.unready
		if err := a.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(metricsText(t, r, "pod2_agent_repairs_total"), "  ", " "); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.unready, got, tt.want)
		}
	}
}
