package crontab

import (
	"strings"
	"testing"
	"time"
)

func actions(s State) string { return lines(s, "delete", "create", "update", "release", "again") }

func TestCronJob(t *testing.T) {
	runDiff(t, []diffTest{
		{"is created", "", nil, `
			create CronJob ct
			again in 55s`},
		{"stays unchanged", "networks=blue", []string{"cronjob"}, `again in 55s`},
		{"follows the CronTab", "spec=@daily zone=Europe/Berlin suspend policy=Replace replicas=3", []string{
			"cronjob schedule=@weekly image=app:0 limits"}, `
			update CronJob ct (version 7): schedule, activeDeadlineSeconds, pod template`},
		{"loses containers that someone added", "networks=blue", []string{"cronjob sidecar"}, `
			update CronJob ct (version 7): pod template
			again in 55s`},
		{"loses no gate", "networks=blue", []string{"cronjob ungated labels"}, `
			update CronJob ct (version 7): labels, pod template
			again in 55s`},
		{"keeps fields that a CronTab does not have", "", []string{"cronjob ttl"}, `again in 55s`},
		{"is resumed", "", []string{"cronjob suspended"}, `
			update CronJob ct (version 7): suspend
			again in 55s`},
		{"is not created for a schedule that does not parse", "spec=*_*_*_*_/5", nil, ""},
		{"is suspended while the schedule does not parse", "spec=*_*_*_*_/5", []string{"cronjob image=app:0"}, `
			update CronJob ct (version 7): suspend`},
		{"and is then left alone", "spec=*_*_*_*_/5", []string{"cronjob suspended image=app:0"}, ""},
		{"is suspended while the time zone does not exist", "zone=Europe/Atlantis", []string{"cronjob"}, `
			update CronJob ct (version 7): suspend`},
		{"of another user", "", []string{"cronjob bare labels schedule=@daily"}, ""},
		{"that lost its owner is adopted", "", []string{"cronjob bare schedule=@daily"}, `
			update CronJob ct (version 7), adopted: owner reference, schedule
			again in 55s`},
		{"that lost its owner is adopted, and suspended while the schedule does not parse", "spec=*_*_*_*_/5", []string{"cronjob bare"}, `
			update CronJob ct (version 7), adopted: owner reference, suspend`},
		{"that lost its owner and is terminating", "", []string{"cronjob bare going"}, ""},
		{"of another owner", "spec=*_*_*_*_/5", []string{"cronjob of=CronTab/other"}, ""},
		{"of an earlier CronTab", "", []string{"cronjob earlier"}, ""},
		{"terminating", "", []string{"cronjob going image=app:0"}, ""},
	}, actions)
}

func TestDeletion(t *testing.T) {
	runDiff(t, []diffTest{
		{"without the finalizer", "going finalizer=other.example.com", []string{"cronjob image=app:0", "pod ct-1-a"}, ""},
		{"with the finalizer", "going wait", []string{"cronjob", "job ct-1"}, `
			delete CronJob ct (uid u-cj, version 7): the CronTab is being deleted`},
		{"that keeps its dependents", "going wait finalizer=orphan", []string{"cronjob", "job ct-1", "pod ct-1-a"}, ""},
		{"until those have no owner", "going wait finalizer=orphan", []string{"cronjob bare", "job ct-1", "pod ct-1-a", "address 10.0.0.5 ct-1-a"}, `
			release finalizer.stable.example.com`},
		{"waits for the CronJob", "going wait", []string{"cronjob going"}, ""},
		{"waits for Jobs, also those started by hand", "going wait", []string{"job by-hand"}, ""},
		{"waits for a terminating pod", "going wait", []string{"pod ct-1-a going"}, ""},
		{"waits for an address, of any Network", "going wait", []string{"address 10.0.0.5 ct-1-a"}, ""},
		{"waits for the address of a run by hand whose pod has terminated", "going wait", []string{"pod x-a over", "address 10.0.0.5 x-a"}, ""},
		{"terminated and released", "going wait finalizer=other.example.com networks=blue", []string{
			"pod ct-1-a over", "address 10.0.0.5 ct-1-a Resting"}, `
			release finalizer.stable.example.com`},
		{"other owners' pods and addresses are ignored", "going wait networks=blue", []string{
			"cronjob bare", "job x bare", "job y of=CronJob/other", "pod x-a", "pod y-a", "pod z-a of=ReplicaSet/z", "pod j-a unlabelled",
			"address 10.0.0.5 j-a", "address 10.0.0.6 ct-w-a of=ReplicaSet/ct-w", "address 10.0.0.7 db-0 of=StatefulSet/db Reserved"}, `
			release finalizer.stable.example.com`},
		{"addresses of other owners' Jobs are ignored", "going wait", []string{
			"pod x-a over unlabelled", "address 10.0.0.5 x-a", "address 10.0.0.6 y-a", "job ct-hand bare", "address 10.0.0.7 ct-hand-a"}, `
			release finalizer.stable.example.com`},
		{"runs of another owner's CronJob are ignored", "going wait networks=blue", []string{
			"cronjob bare", "job ct-1", "pod ct-1-a", "address 10.0.0.5 ct-1-a"}, `
			release finalizer.stable.example.com`},
		{"and those of an earlier CronTab's CronJob", "going wait", []string{"cronjob earlier", "job ct-1", "pod ct-1-a"}, `
			release finalizer.stable.example.com`},
		{"waits for runs of the former CronJob", "going wait", []string{"cronjob bare", "job ct-1 of=CronJob/ct"}, ""},
		{"a schedule that does not parse is ignored", "going wait spec=nonsense", []string{"cronjob suspended"}, `
			delete CronJob ct (uid u-cj, version 7): the CronTab is being deleted`},
	}, actions)
}

func TestEvents(t *testing.T) {
	runDiff(t, []diffTest{
		{"created", "", nil, `event Normal Created: created CronJob ct`},
		{"updated", "", []string{"cronjob image=app:0"}, `event Normal Updated: updated CronJob ct to match this CronTab: pod template`},
		{"deleted", "going wait", []string{"cronjob"}, `event Normal Deleted: deleted CronJob ct and its runs`},
		{"reported once", "spec=@never", nil, `
			event Warning InvalidSchedule: cronSpec "@never" does not parse: unrecognized descriptor: @never; use @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration, such as @every 1h30m`},
		{"not for temporary problems", "networks=blue", []string{"cronjob", "pod ct-1-a waits=no_address_is_free"}, ""},
	}, func(s State) string { return lines(s, "event") })

	s := state(t, "spec=@never")
	s.CronTab.Status = *Diff(s).Status
	s.CronTab.Generation++
	if got := lines(s, "event"); got != "" {
		t.Errorf("reported again: %s", got)
	}
}

// The status shows the next run, so it is written again when that is due.
func TestRequeueIsTheNextRun(t *testing.T) {
	s := state(t, "", "cronjob")
	first := Diff(s)
	if first.RequeueAfter != 55*time.Second {
		t.Errorf("again in %s", first.RequeueAfter)
	}
	apply(&s, first)
	s.Now = s.Now.Add(55*time.Second - 1)
	if got := lines(s, "status"); got != "" {
		t.Errorf("before the next run is due: %s", got)
	}
	s.Now = s.Now.Add(1)
	if got, want := lines(s, "status"), "next 2026-01-02T15:10:00Z"; !strings.Contains(got, want) {
		t.Errorf("the next run is due and the status becomes %q, want it to contain %s", got, want)
	}
}
