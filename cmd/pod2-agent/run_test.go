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
	"github.com/pod2/pod2/pkg/agent/node"
)

// script is a kernel whose changes take time and record when they began. One of them may fail.
type script struct {
	memory
	start time.Time
	takes []time.Duration
	fail  int // the one that fails, from 1
	at    []string
}

func (s *script) Apply(dataplane.Host) (dataplane.Plan, error) {
	s.at = append(s.at, time.Since(s.start).String())
	if n := len(s.at); n <= len(s.takes) {
		time.Sleep(s.takes[n-1])
	}
	if len(s.at) == s.fail {
		return nil, errors.New("refused")
	}
	return nil, nil
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

// While a bridge of the earlier data plane has pods, the kernel stays as it was, and all errors say why.
func TestBridgeWithPods(t *testing.T) {
	state := cluster("10.0.0.1")
	m := &memory{bridges: []string{"nw70001"}}
	a := newTestAgent(m, &state)
	p := &plugged{}
	a.ports = p
	err := a.sync(t.Context())
	want := "pods that an earlier version attached are on bridge nw70001, and new pods wait until those are gone: drain the node"
	if fmt.Sprint(p.blocked) != want || !errors.Is(err, p.blocked) || len(p.synced)+len(m.done) > 0 {
		t.Errorf("got %v and %v, after %d syncs of ports and %d changes", p.blocked, err, len(p.synced), len(m.done))
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
		_ = a.sync(ctx) // the Node does not exist
	}
	plan := make(dataplane.Plan, 100)
	for i := range plan {
		plan[i].Text = fmt.Sprintf("ip link del n%03d", i)
	}
	a.log(ctx, plan, false)
	a.log(ctx, nil, true)
	text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if got := strings.Count(text, "the Node has no address"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, text)
	}
	if got := strings.Count(text, "Changed the kernel"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, text)
	}
	if !strings.Contains(text, "ip link del n019") || strings.Contains(text, "n020") {
		t.Errorf("got\n%s", text)
	}
}

// collector has drops of a pod and of the node.
func collector() *dropsCollector {
	return &dropsCollector{
		programs: func() (map[node.Drop]uint64, error) {
			return map[node.Drop]uint64{
				{Reason: "mac", Namespace: "default", Network: "blue", Pod: "a"}:     3,
				{Reason: "ip", Namespace: "default", Network: "blue", Pod: "a"}:      1,
				{Reason: "unknown", Namespace: "default", Network: "blue", Pod: "a"}: 7,
				{Reason: "vxlan"}: 2,
			}, nil
		},
		rules: func() (map[string]uint64, error) { return map[string]uint64{"vxlan": 5}, nil },
	}
}

// Drops are counted by reason and Network, and those of a pod that forged something also by pod.
func TestDrops(t *testing.T) {
	c := collector()
	r := k8smetrics.NewKubeRegistry()
	r.CustomMustRegister(c)
	names := []string{"pod2_agent_dropped_packets_total", "pod2_agent_pod_spoofed_packets_total"}
	want := `pod2_agent_dropped_packets_total [name:"network" value:"" name:"network_namespace" value:"" name:"reason" value:"vxlan"] 7
pod2_agent_dropped_packets_total [name:"network" value:"blue" name:"network_namespace" value:"default" name:"reason" value:"ip"] 1
pod2_agent_dropped_packets_total [name:"network" value:"blue" name:"network_namespace" value:"default" name:"reason" value:"mac"] 3
pod2_agent_dropped_packets_total [name:"network" value:"blue" name:"network_namespace" value:"default" name:"reason" value:"unknown"] 7
pod2_agent_pod_spoofed_packets_total [name:"network" value:"blue" name:"pod_name" value:"a" name:"pod_namespace" value:"default"] 4`
	if got := strings.ReplaceAll(metricsText(t, r, names...), "  ", " "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c.rules = func() (map[string]uint64, error) { return nil, errors.New("refused") }
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
	r := registered(a)
	r.CustomMustRegister(collector())
	a.metrics.show(map[string]int{"pod": 1}, 0)
	a.metrics.count(dataplane.Plan{{Kind: dataplane.KindTable}}, false)
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
