package pod2

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func records(entries ...string) string {
	text := "backoff={"
	for i, e := range entries {
		if i > 0 {
			text += ","
		}
		text += e
	}
	return text + "}"
}

func TestBackoff(t *testing.T) {
	second := time.Second
	runDiff(t, []diffTest{
		{"the first failure is on record before the pod is deleted", "replicas=2", []string{"web-0", "web-1 failed=Evicted"}, `
			backoff {"web-1":{"uid":"u-1","failures":1,"since":"2026-01-02T15:04:05Z"}}
			delete web-1 (uid u-1): terminated (Failed: Evicted)`},
		{"a pod that succeeds is replaced too", "replicas=1", []string{"web-0 succeeded"}, `
			backoff {"web-0":{"uid":"u-0","failures":1,"since":"2026-01-02T15:04:05Z"}}
			delete web-0 (uid u-0): terminated (Succeeded)`},
		{"the second failure waits", "replicas=1 " + records(entry("web-0", "u-before", 1, 30*second)), []string{"web-0 failed"}, `
			backoff {"web-0":{"uid":"u-0","failures":2,"since":"2026-01-02T15:04:05Z"}}
			again in 10s`},
		{"still waits", "replicas=1 " + records(entry("web-0", "u-0", 3, 19*second)), []string{"web-0 failed"}, `
			again in 1s`},
		{"has waited", "replicas=1 " + records(entry("web-0", "u-0", 3, 20*second)), []string{"web-0 failed"}, `
			delete web-0 (uid u-0): terminated (Failed)`},
		{"the record outlives the pod", "replicas=1 " + records(entry("web-0", "u-0", 3, 20*second)), nil, `
			create web-0: missing`},
		{"a terminating pod is left alone", "replicas=1", []string{"web-0 failed terminating"}, "again in 30s"},
		{"never longer than five minutes", "replicas=1 " + records(entry("web-0", "u-0", 99, 0)), []string{"web-0 failed"}, `
			again in 5m0s`},
		{"the earliest counts", "replicas=2 " + records(entry("web-0", "u-0", 9, 0), entry("web-1", "u-1", 4, 0)),
			[]string{"web-0 failed", "web-1 failed"}, `
			again in 40s`},
		{"ready for a while", "replicas=1 " + records(entry("web-0", "u-before", 3, 9*time.Minute)), []string{"web-0 age=8m"}, `
			again in 2m0s`},
		{"ready for ten minutes", "replicas=1 " + records(entry("web-0", "u-before", 3, 11*time.Minute)), []string{"web-0 age=10m"}, `
			remove backoff`},
		{"alive for ten minutes and not ready", "replicas=1 " + records(entry("web-0", "u-before", 3, time.Hour)), []string{"web-0 notready"}, ""},
		{"a new template resets the record", "replicas=1 " + records(entry("web-0", "u-0", 9, 0)), []string{"web-0 old failed"}, `
			remove backoff
			delete web-0 (uid u-0): template changed`},
		{"scaled down", "replicas=1 " + records(entry("web-0", "u-before", 1, 0), entry("web-1", "u-1", 1, 0)), []string{"web-0 notready"},
			"backoff {" + entry("web-0", "u-before", 1, 0) + "}"},
		{"unreadable", "replicas=1 backoff={", []string{"web-0"}, `remove backoff`},
		{"a pod terminates while the record is unreadable", "replicas=1 backoff=[]", []string{"web-0 failed"}, `
			backoff {"web-0":{"uid":"u-0","failures":1,"since":"2026-01-02T15:04:05Z"}}
			delete web-0 (uid u-0): terminated (Failed)`},
		{"the counter is at its maximum", "replicas=1 " + records(entry("web-0", "u-before", 1<<31-1, 0)), []string{"web-0 failed"}, `
			backoff {"web-0":{"uid":"u-0","failures":2147483647,"since":"2026-01-02T15:04:05Z"}}
			again in 5m0s`},
		{"since tomorrow: the clock was set back", "replicas=1 " + records(entry("web-0", "u-0", 2, -24*time.Hour)), []string{"web-0 failed"}, `
			backoff {"web-0":{"uid":"u-0","failures":2,"since":"2026-01-02T15:04:05Z"}}
			again in 10s`},
		{"a pod of another owner", "replicas=1", []string{"web-0 bare failed"}, ""},
	}, actions)
}

func TestDelays(t *testing.T) {
	got := ""
	for n := int32(0); n <= 8; n++ {
		got += fmt.Sprint(delay(n), " ")
	}
	if want := "0s 0s 10s 20s 40s 1m20s 2m40s 5m0s 5m0s "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The annotation has a bound. A replica without room in it waits until its pod is as old
// as the longest delay.
func TestBackoffIsBounded(t *testing.T) {
	var pods []string
	for i := range maxFailures {
		pods = append(pods, fmt.Sprintf("web-%d failed", i))
	}
	pods = append(pods, fmt.Sprintf("web-%d failed age=4m59s", maxFailures), fmt.Sprintf("web-%d failed age=5m", maxFailures+1))
	s := state(t, fmt.Sprintf("replicas=%d", len(pods)), pods...)
	plan := Diff(s)
	var written map[string]failure
	if err := json.Unmarshal([]byte(plan.Backoff.Value), &written); err != nil {
		t.Fatal(err)
	}
	if len(written) != maxFailures || len(plan.Delete) != maxFailures+1 || len(plan.Backoff.Value) > 200_000 {
		t.Fatalf("%d records of %d bytes, %d deletions", len(written), len(plan.Backoff.Value), len(plan.Delete))
	}
	if last := plan.Delete[maxFailures].Name; last != fmt.Sprintf("web-%d", maxFailures+1) {
		t.Errorf("without a record, %s is deleted", last)
	}
	if plan.RequeueAfter != time.Second {
		t.Errorf("looks again in %s", plan.RequeueAfter)
	}

	s.Pod2.Annotations = map[string]string{v1.BackoffAnnotation: plan.Backoff.Value}
	s.Pods = append(s.Pods[:0:0], s.Pods...)
	s.Pods[7] = pod(t, s.Pod2, "web-7 uid=next ready=11m age=11m")
	s.Now = s.Now.Add(time.Hour)
	written = nil
	if err := json.Unmarshal([]byte(Diff(s).Backoff.Value), &written); err != nil {
		t.Fatal(err)
	}
	if _, ok := written[fmt.Sprintf("web-%d", maxFailures)]; !ok || len(written) != maxFailures {
		t.Errorf("%d records; the first waiting replica did not get the record of web-7", len(written))
	}
}
