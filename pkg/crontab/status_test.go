package crontab

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// conditions renders Ready, and Scheduled if it differs.
func conditions(s State) string {
	v := look(s)
	ready, scheduled := v.ready(), v.scheduled()
	text := "Ready=" + string(ready.Status) + " " + ready.Reason + ": " + ready.Message
	if scheduled != ready {
		text += "\nScheduled=" + string(scheduled.Status) + " " + scheduled.Reason + ": " + scheduled.Message
	}
	return text
}

func TestConditions(t *testing.T) {
	runDiff(t, []diffTest{
		{"no problem", "zone=Europe/Berlin", []string{"cronjob"}, `
			Ready=True Scheduled: the CronJob matches this CronTab
			Scheduled=True Scheduled: runs on schedule "*/5 * * * *" in time zone Europe/Berlin`},
		{"suspended", "suspend", []string{"cronjob"}, `
			Ready=True Suspended: the CronJob is suspended (spec.suspend)
			Scheduled=False Suspended: no run starts until spec.suspend is false`},
		{"a schedule that does not parse", "spec=@never suspend", nil, `
			Ready=False InvalidSchedule: cronSpec "@never" does not parse: unrecognized descriptor: @never; use @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration, such as @every 1h30m`},
		{"a zone that does not exist", "zone=Europe/Atlantis", nil, `
			Ready=False InvalidTimeZone: timeZone "Europe/Atlantis": unknown time zone Europe/Atlantis; use a name from the IANA time zone database, such as Europe/Berlin`},
		{"no such day", "spec=0_0_31_2_*", nil, `
			Ready=False NeverDue: cronSpec "0 0 31 2 *" matches no date in the next five years`},
		{"an interval longer than the deadline", "spec=@every_1h deadline=3599", nil, `
			Ready=False NeverDue: startingDeadlineSeconds 3599 is too short for cronSpec "@every 1h": Kubernetes would never start a run. Remove it, or set it to at least 3600`},
		{"an interval within the deadline", "spec=@every_1h deadline=3600", []string{"cronjob"}, `
			Ready=True Scheduled: the CronJob matches this CronTab
			Scheduled=True Scheduled: runs on schedule "@every 1h"`},
		{"always too late", "deadline=0", nil, `
			Ready=False NeverDue: startingDeadlineSeconds 0 is too short for cronSpec "*/5 * * * *": Kubernetes would never start a run. Remove it, or set it to at least 1`},
		{"the name is taken", "", []string{"cronjob bare labels"}, `
			Ready=False NameTaken: CronJob ct already exists and has no controller: delete it so that the CronTab can use the name`},
		{"the name is taken by another owner", "", []string{"cronjob of=Backup/ct"}, `
			Ready=False NameTaken: CronJob ct already exists and is owned by Backup ct: delete it so that the CronTab can use the name`},
		{"an earlier CronTab with the same name", "", []string{"cronjob earlier"}, `
			Ready=False WaitingForDeletion: CronJob ct of an earlier CronTab ct still exists`},
		{"someone deletes the CronJob", "", []string{"cronjob going"}, `
			Ready=False WaitingForDeletion: CronJob ct is being deleted; the controller then recreates it`},
		{"Networks that do not exist", "networks=red,blue,green exists=blue", []string{"cronjob"}, `
			Ready=False NetworkNotFound: Network green, red does not exist: pods of a run stay unscheduled until it is created
			Scheduled=True Scheduled: runs on schedule "*/5 * * * *"`},
		{"a Network that is being deleted", "networks=blue,green terminating=green", []string{"cronjob"}, `
			Ready=False NetworkTerminating: Network green is being deleted: pods of a run stay unscheduled until it is deleted and recreated
			Scheduled=True Scheduled: runs on schedule "*/5 * * * *"`},
		{"a run waits for addresses", "networks=blue", []string{"cronjob", "pod ct-1-a over waits=old_news", "pod ct-2-a waits=no_address_is_free"}, `
			Ready=False WaitingForAddresses: ct-2-a: no address is free
			Scheduled=True Scheduled: runs on schedule "*/5 * * * *"`},
		{"a deletion waits", "going wait", []string{"cronjob going", "pod ct-1-a"}, `
			Ready=False Terminating: the finalizer finalizer.stable.example.com waits for CronJob ct`},
		{"a deletion that keeps the CronJob waits", "going wait finalizer=orphan", []string{"cronjob"}, `
			Ready=False Terminating: the finalizer finalizer.stable.example.com waits for CronJob ct`},
		{"a deletion waits for pods", "going wait", []string{"pod ct-1-a"}, `
			Ready=False Terminating: the finalizer finalizer.stable.example.com waits for pod ct-1-a`},
		{"a deletion waits for addresses", "going wait networks=blue", []string{"address 10.0.0.5 ct-1-a"}, `
			Ready=False Terminating: the finalizer finalizer.stable.example.com waits for address 10.0.0.5 of Network blue, which pod ct-1-a held`},
	}, conditions)
}

func TestStatus(t *testing.T) {
	status := func(s State) string {
		text, _, _ := strings.Cut(lines(s, "status"), " Ready=")
		return text
	}
	runDiff(t, []diffTest{
		{"before the first run", "", nil, `status last - successful - next 2026-01-02T15:05:00Z active 0 replicas 0 generation 1`},
		{"a run is under way", "", []string{"cronjob last=4m5s active=1", "pod ct-1-a", "pod ct-1-b going", "pod ct-0-a over"}, `
			status last 2026-01-02T15:00:00Z successful 2026-01-02T15:00:01Z next 2026-01-02T15:05:00Z active 1 replicas 1 generation 1`},
		{"in its time zone", "spec=0_3_*_*_* zone=Asia/Tokyo", []string{"cronjob"}, `
			status last - successful - next 2026-01-02T18:00:00Z active 0 replicas 0 generation 1`},
		{"an interval", "spec=@every_1h", []string{"cronjob last=30m"}, `
			status last 2026-01-02T14:34:05Z successful 2026-01-02T14:34:06Z next 2026-01-02T15:34:05Z active 0 replicas 0 generation 1`},
		{"none is due", "suspend", []string{"cronjob last=4m5s"}, `
			status last 2026-01-02T15:00:00Z successful 2026-01-02T15:00:01Z next - active 0 replicas 0 generation 1`},
		{"of an adopted CronJob", "", []string{"cronjob bare last=4m5s active=1", "job ct-1", "pod ct-1-a"}, `
			status last 2026-01-02T15:00:00Z successful 2026-01-02T15:00:01Z next 2026-01-02T15:05:00Z active 1 replicas 1 generation 1`},
		{"objects of other owners are not counted", "", []string{
			"cronjob bare labels last=4m5s active=1", "job ct-1", "pod ct-1-a", "pod x-1-a of=ReplicaSet/x", "pod y-1-a unlabelled"}, `
			status last - successful - next - active 0 replicas 0 generation 1`},
	}, status)
}

// A recreated CronJob knows no run; the CronTab remembers the last one.
func TestLastRunIsKept(t *testing.T) {
	s := state(t, "", "cronjob")
	last := metav1.NewTime(now.Add(-time.Hour))
	s.CronTab.Status.LastScheduleTime = ptr.To(last)
	if got := Diff(s).Status.LastScheduleTime; !got.Equal(&last) {
		t.Errorf("last run at %v", got)
	}
}

// A refused write leaves the CronJob unchanged, and runs continue as the CronJob says.
func TestFailure(t *testing.T) {
	const none = `next - Ready=False/FailedUpdate(no) Scheduled=False/FailedUpdate(no)`
	runDiff(t, []diffTest{
		{"there is no CronJob", "", nil, none},
		{"it has another schedule", "spec=@daily", []string{"cronjob schedule=*/5_*_*_*_*"},
			`next 2026-01-02T15:05:00Z Ready=False/FailedUpdate(no) Scheduled=True/Scheduled(runs on schedule "*/5 * * * *")`},
		{"and another zone", "", []string{"cronjob schedule=0_3_*_*_* zone=Asia/Tokyo"},
			`next 2026-01-02T18:00:00Z Ready=False/FailedUpdate(no) Scheduled=True/Scheduled(runs on schedule "0 3 * * *" in time zone Asia/Tokyo)`},
		{"that does not exist", "", []string{"cronjob zone=Europe/Atlantis"}, none},
		{"it never runs", "", []string{"cronjob schedule=0_0_31_2_*"}, none},
		{"it is suspended", "", []string{"cronjob suspended"}, none},
		{"it was to be suspended", "suspend", []string{"cronjob resumed"},
			`next 2026-01-02T15:05:00Z Ready=False/FailedUpdate(no) Scheduled=True/Scheduled(runs on schedule "*/5 * * * *")`},
		{"because the schedule does not parse", "spec=@fortnightly", []string{"cronjob"},
			`next 2026-01-02T15:05:00Z Ready=False/FailedUpdate(no) Scheduled=True/Scheduled(runs on schedule "*/5 * * * *"; cronSpec "@fortnightly" does not parse: ` +
				`unrecognized descriptor: @fortnightly; use @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration, such as @every 1h30m)`},
		{"it was to be deleted", "going wait", []string{"cronjob"},
			`next 2026-01-02T15:05:00Z Ready=False/FailedUpdate(no) Scheduled=True/Scheduled(runs on schedule "*/5 * * * *")`},
		{"it is being deleted", "", []string{"cronjob going"}, none},
		{"it has another owner", "", []string{"cronjob bare labels"}, none},
		{"it was to be adopted", "", []string{"cronjob bare"},
			`next 2026-01-02T15:05:00Z Ready=False/FailedUpdate(no) Scheduled=True/Scheduled(runs on schedule "*/5 * * * *")`},
	}, func(s State) string {
		status, _ := WithFailure(s, plan.Failure{Reason: "FailedUpdate", Message: "no"})
		_, conditions, _ := strings.Cut(statusText(status), "generation 1 ")
		return "next " + timeText(status.NextScheduleTime) + " " + conditions
	})
}

func TestLongFailure(t *testing.T) {
	status, events := WithFailure(state(t, ""), plan.Failure{Reason: "FailedCreate", Message: strings.Repeat("ä", 2000)})
	if n := len(status.Conditions[0].Message); n > shorten.EventMessage || len(events[0].Message) != n {
		t.Errorf("a message of %d bytes, an event of %d", n, len(events[0].Message))
	}
}

func TestNumbersMayWait(t *testing.T) {
	for _, row := range []struct {
		name, want string
		change     func(*v1.CronTabStatus)
	}{
		{"nothing differs", "there is none", func(*v1.CronTabStatus) {}},
		{"a run began", "may wait", func(s *v1.CronTabStatus) { s.Active, s.NextScheduleTime = 7, nil }},
		{"pods", "may wait", func(s *v1.CronTabStatus) { s.Replicas = 7 }},
		{"a run was successful", "may wait", func(s *v1.CronTabStatus) { s.LastSuccessfulTime = nil }},
		{"another generation", "is written", func(s *v1.CronTabStatus) { s.ObservedGeneration = 0 }},
		{"a condition", "is written", func(s *v1.CronTabStatus) { s.Conditions[0].Message = "other" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := state(t, "", "cronjob last=5m active=2")
			s.CronJob.Status.LastSuccessfulTime = s.CronJob.Status.LastScheduleTime
			s.CronTab.Status = *Diff(s).Status
			row.change(&s.CronTab.Status)
			s.NumbersHeld = time.Second
			plan, got := Diff(s), "is written"
			switch {
			case plan.Gathers:
				got = "may wait"
			case plan.Status == nil:
				got = "there is none"
			}
			if got != row.want {
				t.Errorf("the status %s, want: %s", got, row.want)
			}
		})
	}
}
