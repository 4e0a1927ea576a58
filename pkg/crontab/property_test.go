package crontab

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// arbitrary returns a state that the controller need not be able to reach, with the words
// and the objects that it was made from.
func arbitrary(t *testing.T, dice *rand.Rand) (s State, from string, objects []string) {
	some := func(words ...string) string {
		var chosen []string
		for _, w := range words {
			if dice.IntN(4) == 0 {
				chosen = append(chosen, w)
			}
		}
		return strings.Join(chosen, " ")
	}
	spec := some("spec=*_*_*_*_/5", "spec=@every_1h", "spec=0_0_31_2_*", "zone=Europe/Berlin", "zone=Europe/Atlantis", "suspend", "networks=blue",
		"policy=Replace", "replicas=3", "going", "wait", "finalizer=other.example.com", "finalizer=orphan")
	if dice.IntN(3) > 0 {
		objects = append(objects, "cronjob "+some("earlier", "going", "schedule=@daily", "suspended", "image=app:0", "sidecar", "limits", "labels", "last=30m", "active=2"))
		if dice.IntN(8) == 0 {
			objects[0] += " bare"
		}
	}
	for _, o := range []string{"job ct-1", "job x", "pod ct-1-a", "pod x-a", "pod z-a"} {
		if dice.IntN(4) == 0 {
			owner := ""
			if dice.IntN(4) == 0 {
				owner = []string{" of=Other/other", " of=CronJob/ct"}[dice.IntN(2)]
			}
			over := ""
			if strings.HasPrefix(o, "pod") {
				over = some("over") + " "
			}
			objects = append(objects, o+" "+over+some("going")+owner)
		}
	}
	for _, o := range []string{"address 10.0.0.5 ct-1-a", "address 10.0.0.6 z-a"} {
		if dice.IntN(4) == 0 {
			objects = append(objects, o+" "+some("Resting"))
		}
	}
	s = state(t, spec, objects...)
	if dice.IntN(2) == 0 { // only the CronJob is left to write
		apply(&s, Plan{Status: Diff(s).Status})
	}
	return s, fmt.Sprintf("%s %q", spec, objects), objects
}

// apply applies a plan to the state like the API server.
func apply(s *State, p Plan) {
	switch {
	case p.Delete != nil:
		s.CronJob = s.CronJob.DeepCopy()
		s.CronJob.DeletionTimestamp = ptr.To(metav1.NewTime(s.Now))
	case p.Create != nil:
		s.CronJob = p.Create.DeepCopy()
		s.CronJob.UID, s.CronJob.CreationTimestamp = "u-new", metav1.NewTime(s.Now)
	case p.Update != nil:
		s.CronJob = p.Update.Object.DeepCopy()
	}
	s.CronTab = s.CronTab.DeepCopy()
	if p.Release {
		var others []string
		for _, f := range s.CronTab.Finalizers {
			if f != v1.WaitFinalizer {
				others = append(others, f)
			}
		}
		s.CronTab.Finalizers = others
	}
	if p.Status != nil {
		s.CronTab.Status = *p.Status
	}
}

func TestNothingBadHappens(t *testing.T) { chance.ForSeeds(t, 5000, nothingBadHappens) }

func FuzzDiff(f *testing.F) { chance.Fuzz(f, nothingBadHappens) }

func nothingBadHappens(t *testing.T, dice *rand.Rand) {
	s, from, objects := arbitrary(t, dice)
	before := State{CronTab: s.CronTab.DeepCopy(), CronJob: s.CronJob.DeepCopy()}
	p := Diff(s)
	broken := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\nstate %s\nplan\n%s", fmt.Sprintf(format, args...), from, p)
	}
	if why := spec.CronTabDone(kubernetes(s), s.CronTab); p.Empty() && why != "" {
		broken("the plan is empty, but the work is not done: %s", why)
	}
	if !reflect.DeepEqual(p, Diff(s)) {
		broken("the second plan differs")
	}
	if !reflect.DeepEqual(before.CronTab, s.CronTab) || !reflect.DeepEqual(before.CronJob, s.CronJob) {
		broken("the state was changed")
	}
	touched := p.Delete != nil || p.Update != nil
	orphan := strings.Contains(from, " bare") && !strings.Contains(from, "labels") && s.CronTab.DeletionTimestamp == nil
	if touched && !orphan && !metav1.IsControlledBy(s.CronJob, s.CronTab) {
		broken("S6: the CronTab does not own the CronJob")
	}
	if p.Delete != nil && strings.Contains(from, "orphan") {
		broken("its user wants to keep the CronJob")
	}
	if p.Create != nil && s.CronJob != nil {
		broken("the name is taken")
	}
	switch left := left(objects); {
	case p.Release && left != "":
		broken("the finalizer is removed, but this is left: %s", left)
	case p.Status != nil && strings.Contains(p.String(), "waits for") && left == "":
		broken("it waits for another owner's object")
	}
}

// After one round of writes, nothing is left to write until something else happens: no
// two decisions undo each other.
func TestOneRoundConverges(t *testing.T) {
	chance.ForSeeds(t, 2000, func(t *testing.T, dice *rand.Rand) {
		s, from, _ := arbitrary(t, dice)
		first := Diff(s)
		apply(&s, first)
		// The status of a second round shows the created and deleted objects.
		apply(&s, Plan{Status: Diff(s).Status})
		second := Diff(s)
		if why := spec.CronTabDone(kubernetes(s), s.CronTab); !second.Empty() || why != "" {
			t.Errorf("left to do is %q\nstate %s\nfirst\n%ssecond\n%s", why, from, first, second)
		}
	})
}

// A write that is refused repeatedly is reported once. A next run needs a schedule.
func TestAFailureIsToldOnce(t *testing.T) {
	chance.ForSeeds(t, 2000, func(t *testing.T, dice *rand.Rand) {
		s, from, _ := arbitrary(t, dice)
		refused := plan.Failure{Reason: "FailedUpdate", Message: "no"}
		first, events := WithFailure(s, refused)
		if first == nil || len(events) != 1 || events[0].Message != "no" {
			t.Fatalf("state %s\nstatus %v\nevents %v", from, first, events)
		}
		if scheduled := meta.IsStatusConditionTrue(first.Conditions, v1.ConditionScheduled); !scheduled && first.NextScheduleTime != nil {
			t.Errorf("state %s\nstatus %s", from, statusText(first))
		}
		apply(&s, Plan{Status: first})
		if again, events := WithFailure(s, refused); again != nil || len(events) > 0 {
			t.Errorf("state %s\nagain %v\n%v", from, again, events)
		}
		s.Now = s.Now.Add(time.Hour) // a run or two later
		if _, events := WithFailure(s, refused); len(events) > 0 {
			t.Errorf("state %s\nan hour later %v", from, events)
		}
	})
}

// While a CronTab waits, time alone changes nothing before RequeueAfter, and it does at
// that time.
func TestRequeueAfterIsExact(t *testing.T) {
	chance.ForSeeds(t, 2000, func(t *testing.T, dice *rand.Rand) {
		s, from, _ := arbitrary(t, dice)
		p := Diff(s)
		if !p.Empty() || p.RequeueAfter == 0 {
			return
		}
		start := s.Now
		s.Now = start.Add(time.Duration(dice.Int64N(int64(p.RequeueAfter))))
		if early := Diff(s); !early.Empty() {
			t.Errorf("%s is too late\nstate %s\n%s", p.RequeueAfter, from, early)
		}
		s.Now = start.Add(p.RequeueAfter)
		if Diff(s).Empty() {
			t.Errorf("after %s nothing changed\nstate %s", p.RequeueAfter, from)
		}
	})
}

// left returns the first object that a deletion must wait for. The CronTab owns a Job if
// its CronJob is gone or owned, and a pod if its Job is owned or gone. It used an address
// if it owns the pod, or if the pod's former Job has a name of the CronTab.
func left(objects []string) string {
	all := strings.Join(objects, "\n")
	line := func(kind, name string) string {
		return regexp.MustCompile("(?m)^" + kind + " " + name + " .*$").FindString(all)
	}
	foreignCronJob := regexp.MustCompile("(?m)^cronjob.* (bare|earlier)").MatchString(all)
	jobOurs := func(o string) bool {
		return strings.Contains(o, "of=CronJob/ct") || !strings.Contains(o, "of=") && !foreignCronJob
	}
	podOurs := func(o string) bool {
		job := line("job", strings.TrimSuffix(strings.Fields(o)[1], "-a"))
		return !strings.Contains(o, "of=") && (job == "" || jobOurs(job))
	}
	for _, o := range objects {
		var waits bool
		switch words := strings.Fields(o); words[0] {
		case "cronjob":
			waits = !foreignCronJob
		case "job":
			waits = jobOurs(o)
		case "pod":
			waits = podOurs(o) && !strings.Contains(o, "over")
		case "address":
			pod, job := line("pod", words[2]), strings.TrimSuffix(words[2], "-a")
			byName := line("job", job) == "" && strings.HasPrefix(job, "ct-")
			waits = !strings.Contains(o, "Resting") && (pod != "" && podOurs(pod) || pod == "" && byName)
		}
		if waits {
			return o
		}
	}
	return ""
}

// kubernetes returns the objects of a State.
func kubernetes(s State) *spec.Cluster {
	c := &spec.Cluster{Now: s.Now, Jobs: s.Jobs, Pods: s.Pods, Blocks: s.Blocks, Networks: s.Networks}
	if s.CronJob != nil {
		c.CronJobs = append(c.CronJobs, s.CronJob)
	}
	return c
}
