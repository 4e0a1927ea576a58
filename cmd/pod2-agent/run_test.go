//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/kernel"
)

// script is a kernel whose reads take time and record when they began. One of them may fail.
type script struct {
	memory
	start time.Time
	takes []time.Duration
	fail  int // the read that fails, from 1
	at    []string
}

func (s *script) Read() (dataplane.Host, error) {
	s.at = append(s.at, time.Since(s.start).String())
	if n := len(s.at); n <= len(s.takes) {
		time.Sleep(s.takes[n-1])
	}
	if len(s.at) == s.fail {
		return nil, errors.New("unreadable")
	}
	return s.host, nil
}

// runFor virtual time, with the alarm ringing all the time or never.
func runFor(t *testing.T, s *script, d, ring time.Duration) k8smetrics.KubeRegistry {
	t.Helper()
	state := cluster("10.0.0.1")
	a := newTestAgent(s, &state)
	r := registered(a)
	s.start = time.Now()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	wake := newAlarm()
	var ringing sync.WaitGroup
	if ring > 0 {
		ringing.Go(func() {
			for ctx.Err() == nil {
				wake.ring()
				time.Sleep(ring)
			}
		})
	}
	a.run(ctx, wake)
	ringing.Wait()
	return r
}

// A failed sync is retried a second later. After a successful one comes the resync.
func TestRunRetriesAndResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: 1}
		r := runFor(t, s, 90*time.Minute, 0)
		if got, want := strings.Join(s.at, " "), "0s 1.002s 1h0m1.004s"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		got := metricsText(t, r, "pod2_agent_sync_duration_seconds", "pod2_agent_sync_errors_total")
		if want := "pod2_agent_sync_duration_seconds [] 3\npod2_agent_sync_errors_total [] 1"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// However often the alarm rings, the loop rests as long as it worked.
func TestRunRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{takes: []time.Duration{time.Second, 10 * time.Second}}
		runFor(t, s, 22*time.Second+3*time.Millisecond, time.Millisecond/2)
		if got, want := strings.Join(s.at, " "), "0s 2s 22s 22.002s"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Two rings before a sync are one change, which waits since the first. heard resets the alarm.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		wake := newAlarm()
		wake.ring()
		time.Sleep(time.Second)
		wake.ring()
		if got := wake.heard(); !got.Equal(start) {
			t.Errorf("since %s", got.Sub(start))
		}
		if got := wake.heard(); !got.IsZero() {
			t.Errorf("once more, since %s", got.Sub(start))
		}
	})
}

// Only a sync that does not end fails the liveness probe; a loop that rests does not.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{takes: []time.Duration{time.Minute, 3 * time.Minute}}
		state := cluster("10.0.0.1")
		a := newTestAgent(s, &state)
		s.start = time.Now()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.run(ctx, newAlarm())
		for _, step := range []struct {
			wait time.Duration
			want string
		}{
			{59 * time.Second, "<nil>"},                 // the first sync
			{time.Hour, "<nil>"},                        // it rests until 1h2m
			{3 * time.Minute, "<nil>"},                  // 1h3m59s: the second
			{10 * time.Second, "a sync that began at "}, // 1h4m9s: the same
			{2 * time.Minute, "<nil>"},                  // it has ended
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			if got := fmt.Sprint(a.live()); !strings.HasPrefix(got, step.want) {
				t.Errorf("after %s: got %s, want %s", time.Since(s.start), got, step.want)
			}
		}
		stop()
		time.Sleep(time.Hour)
	})
}

// ordered is a kernel and CNI's results. It records the order of reads, which may fail.
type ordered struct {
	memory
	refuse string
	log    []string
}

func (o *ordered) read(what string) error {
	o.log = append(o.log, what)
	if what == o.refuse {
		return errors.New(what + " cannot be read")
	}
	return nil
}

func (o *ordered) Read() (dataplane.Host, error) { return nil, o.read("kernel") }

type orderedPorts struct{ *ordered }

func (o orderedPorts) Read() ([]dataplane.Port, error) { return nil, o.read("ports") }

// Interfaces are read before their pods. If either read fails, nothing is changed.
func TestSyncReads(t *testing.T) {
	for _, tt := range []struct{ refuse, want string }{
		{"", "kernel ports: 1 plans, <nil>"},
		{"kernel", "kernel: 0 plans, kernel cannot be read"},
		{"ports", "kernel ports: 0 plans, ports cannot be read"},
	} {
		state := cluster("10.0.0.1")
		o := &ordered{refuse: tt.refuse}
		a := newTestAgent(o, &state)
		a.ports = orderedPorts{o}
		err := a.sync(t.Context(), time.Time{})
		if got := fmt.Sprintf("%s: %d plans, %v", strings.Join(o.log, " "), len(o.done), err); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// The programming time runs from the notification of a change until the kernel has it, even
// if a later sync succeeds. It excludes repairs, changes without a notification, and
// changes that the kernel already has.
func TestProgramming(t *testing.T) {
	s := cluster("10.0.0.1")
	m := &memory{}
	a := newTestAgent(m, &s)
	r := registered(a)
	told, untold := time.Now(), time.Time{}
	for i, step := range []struct {
		cluster dataplane.State
		has     bool // the kernel has it already
		since   time.Time
		err     error
		want    string
	}{
		{cluster("10.0.0.1"), false, told, nil, "pod2_agent_programming_duration_seconds [] 1"},
		{cluster("10.0.0.1"), false, told, nil, "pod2_agent_programming_duration_seconds [] 1"},
		{cluster("10.0.0.1", "10.0.0.2"), false, untold, nil, "pod2_agent_programming_duration_seconds [] 1"},
		{cluster("10.0.0.1", "10.0.0.3"), true, told, nil, "pod2_agent_programming_duration_seconds [] 1"},
		{cluster("10.0.0.1", "10.0.0.4"), false, told, nil, "pod2_agent_programming_duration_seconds [] 2"},
		{cluster("10.0.0.1", "10.0.0.5"), false, told, errors.New("refused"), "pod2_agent_programming_duration_seconds [] 2"},
		{cluster("10.0.0.1", "10.0.0.5"), false, untold, nil, "pod2_agent_programming_duration_seconds [] 3"},
		{cluster("10.0.0.1", "10.0.0.6"), false, untold, nil, "pod2_agent_programming_duration_seconds [] 3"},
	} {
		s, m.err = step.cluster, step.err
		if m.host = nil; step.has {
			asked := s
			asked.Node, asked.UDPPort, asked.Transit = a.options.node, a.options.vxlanPort, a.options.transit
			asked.VXLANReversePathFilter = a.options.vxlanReversePathFilter
			m.host, _, _ = dataplane.Want(asked)
		}
		if err := a.sync(t.Context(), step.since); !errors.Is(err, step.err) {
			t.Error(err)
		}
		if got := metricsText(t, r, "pod2_agent_programming_duration_seconds"); got != step.want {
			t.Errorf("%d: got %s, want %s", i, got, step.want)
		}
	}
}

// The log has each problem once, and the beginning of a long plan. It does not mention a plan
// that changed nothing: the error of that sync is enough.
func TestLogIsShort(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	s := dataplane.State{}
	a := newTestAgent(&memory{}, &s)
	for range 3 {
		_ = a.sync(ctx, time.Time{}) // the Node does not exist
	}
	plan := make(dataplane.Plan, 100)
	for i := range plan {
		plan[i].Action = dataplane.AddNamespace{Name: fmt.Sprintf("n%03d", i)}
	}
	a.log(ctx, plan, 100, false)
	a.log(ctx, plan, 0, true)
	text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if got := strings.Count(text, "the Node has no address"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, text)
	}
	if got := strings.Count(text, "Changed the kernel"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, text)
	}
	if !strings.Contains(text, "ip netns add n019") || strings.Contains(text, "n020") {
		t.Errorf("got\n%s", text)
	}
}

// Drops of the node are counted by reason, and those of pods by their open ports.
func TestDrops(t *testing.T) {
	a := newTestAgent(&memory{}, &dataplane.State{})
	r := registered(a)
	r.CustomMustRegister(a.metrics.drops)
	names := []string{"pod2_agent_dropped_packets_total", "pod2_agent_pod_spoofed_packets_total"}
	a.metrics.drops.read = func() (kernel.Drops, error) {
		return kernel.Drops{Reasons: map[string]uint64{"mac": 5}, Ports: map[string]uint64{"veth1": 3, "veth2": 2}}, nil
	}
	a.metrics.show(nil, dataplane.Report{PodPorts: []dataplane.PodPort{{Interface: "veth1", Namespace: "default", Pod: "a", Network: "blue"}, {Interface: "veth9", Pod: "brand-new"}}})
	if families, err := r.Gather(); err != nil || strings.Contains(fmt.Sprint(families), "brand-new") {
		t.Errorf("an unknown port is counted: %v, %v", families, err)
	}
	want := `pod2_agent_dropped_packets_total [name:"reason" value:"mac"] 5
pod2_agent_pod_spoofed_packets_total [name:"network" value:"blue" name:"pod" value:"a" name:"pod_namespace" value:"default"] 3`
	if got := strings.ReplaceAll(metricsText(t, r, names...), "  ", " "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	a.metrics.drops.read = func() (kernel.Drops, error) { return kernel.Drops{}, errors.New("refused") }
	if got := metricsText(t, r, names...); got != "" {
		t.Errorf("got\n%s", got)
	}
}

// docs/reference has the metrics that the agent has, and no others with its prefix.
func TestMetricsAreDocumented(t *testing.T) {
	pages, err := filepath.Glob("../../docs/reference/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages of the reference, %v", len(pages), err)
	}
	var documented, has []string
	for _, page := range pages {
		docs, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range regexp.MustCompile("(?m)^\\| `(pod2_agent_\\w+)`").FindAllSubmatch(docs, -1) {
			documented = append(documented, string(row[1]))
		}
	}
	a := newTestAgent(&memory{}, &dataplane.State{})
	a.metrics.drops.read = func() (kernel.Drops, error) {
		return kernel.Drops{Reasons: map[string]uint64{"mac": 5}, Ports: map[string]uint64{"veth1": 3}}, nil
	}
	r := registered(a)
	r.CustomMustRegister(a.metrics.drops)
	a.metrics.show(nil, dataplane.Report{PodPorts: []dataplane.PodPort{{Interface: "veth1", Pod: "a"}}})
	a.metrics.count(dataplane.Plan{{Action: dataplane.DelNamespace{}}}, false)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		has = append(has, f.GetName())
	}
	slices.Sort(documented)
	documented = slices.Compact(documented)
	slices.Sort(has)
	if got, want := strings.Join(documented, "\n"), strings.Join(has, "\n"); got != want {
		t.Errorf("docs/reference has\n%s\nthe agent has\n%s", got, want)
	}
}
