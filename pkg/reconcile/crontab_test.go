package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// newCronTab returns a CronTab on the Network blue. With true it is being deleted and has
// the finalizer.
func newCronTab(going bool) *stablev1.CronTab {
	c := &stablev1.CronTab{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ct", UID: "uid-of-ct", Finalizers: []string{"other.example.com", stablev1.WaitFinalizer}},
		Spec:       stablev1.CronTabSpec{CronSpec: "@hourly", Image: "app:1", Networks: []stablev1.CronTabNetwork{{Name: "blue"}}},
	}
	if going {
		c.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	return c
}

func of(kind, name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: ns, Labels: map[string]string{stablev1.CronTabLabel: "ct", v1.ManagedLabel: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}},
	}
}

func newCronJob() *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: of("CronTab", "ct", "uid-of-ct")}
	c.Name, c.UID, c.OwnerReferences[0].APIVersion = "ct", "uid-of-cronjob", "stable.example.com/v1"
	return c
}

func newOrphan() *batchv1.CronJob {
	c := newCronJob()
	c.OwnerReferences = nil
	return c
}

func newJob() *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: of("CronJob", "ct", "uid-of-cronjob")}
	j.Name, j.UID = "ct-1", "uid-of-job"
	return j
}

func newRunPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: of("Job", "ct-1", "uid-of-job")}
	p.Name, p.UID = "ct-1-a", "uid-of-pod"
	return p
}

func TestCronTabWrites(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object // 101, 102 and so on
		want    string
	}{
		{"created", []runtime.Object{newNetwork("blue"), newCronTab(false)}, `
get crontabs ct
create cronjobs ct
patch crontabs/status ct uid=uid-of-ct rv=102
event on ct: Normal Created: created CronJob ct`},
		{"updated", []runtime.Object{newNetwork("blue"), newCronTab(false), newCronJob()}, `
patch cronjobs ct uid=uid-of-cronjob rv=103
patch crontabs/status ct uid=uid-of-ct rv=102
event on ct: Normal Updated: updated CronJob ct to match this CronTab: schedule, suspend, concurrencyPolicy, successfulJobsHistoryLimit, failedJobsHistoryLimit, parallelism, completions, backoffLimit, labels, pod template`},
		{"adopted, on a live read", []runtime.Object{newNetwork("blue"), newCronTab(false), newOrphan()}, `
get crontabs ct
patch cronjobs ct uid=uid-of-cronjob rv=103
patch crontabs/status ct uid=uid-of-ct rv=102
event on ct: Normal Updated: updated CronJob ct to match this CronTab: owner reference, schedule, suspend, concurrencyPolicy, successfulJobsHistoryLimit, failedJobsHistoryLimit, parallelism, completions, backoffLimit, labels, pod template`},
		{"deleted, in the foreground", []runtime.Object{newCronTab(true), newCronJob()}, `
delete cronjobs ct uid=uid-of-cronjob rv=102 propagation=Foreground
patch crontabs/status ct uid=uid-of-ct rv=101
event on ct: Normal Deleted: deleted CronJob ct and its runs`},
		{"released, on a live read", []runtime.Object{newCronTab(true)}, `
get cronjobs ct -> NotFound
list jobs selector=stable.example.com/crontab=ct
list pods selector=samplecrd.k8s.io/managed=true
list addressblocks
patch crontabs ct uid=uid-of-ct rv=101`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			calls, err := w.sync(KindCronTab, "ct")
			if err != nil {
				t.Fatal(err)
			}
			same(t, calls, row.want)
		})
	}
}

// Other clients wait for their own finalizers.
func TestOnlyOurFinalizerIsTakenOff(t *testing.T) {
	w := newWorld(t, newCronTab(true))
	if _, err := w.sync(KindCronTab, "ct"); err != nil {
		t.Fatal(err)
	}
	same(t, strings.Join(stored[*stablev1.CronTab](w, "ct").Finalizers, ","), "other.example.com")
}

// The garbage collector removed our owner reference, but the cache does not show it yet.
// The user wants to keep the CronJob.
func TestAnOrphanedCronJobIsNotDeleted(t *testing.T) {
	w := newWorld(t, newCronTab(true), newCronJob())
	w.change(newOrphan())
	calls, err := w.sync(KindCronTab, "ct")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, "delete cronjobs ct uid=uid-of-cronjob rv=102 propagation=Foreground -> Conflict")
}

// The cache does not show yet that the CronTab is being deleted with --cascade=orphan.
// With a new owner reference, the garbage collector would delete the CronJob.
func TestACronTabThatIsNotAsItWasAdoptsNothing(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newCronTab(false), newOrphan())
	w.change(newCronTab(true))
	calls, err := w.sync(KindCronTab, "ct")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, "get crontabs ct")
}

// Each of these objects exists, but the caches do not show it yet. The address belongs to
// a Network that the CronTab asked for before a user edited it.
func TestFinalizerStaysWhileSomethingIsLeft(t *testing.T) {
	block := newBlock("red", "10.1.0.2 ct-1-a Bound Job/ct-1")
	for name, unseen := range map[string]runtime.Object{"CronJob": newCronJob(), "Job": newJob(), "pod": newRunPod(), "address": block} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newCronTab(true))
			w.add(unseen)
			calls, err := w.sync(KindCronTab, "ct")
			if !errors.Is(err, ErrStale) {
				t.Errorf("not stale: %v", err)
			}
			same(t, onlyWrites(calls), "")
		})
	}
}

// The CronTab waits for objects in the caches without a live read.
func TestDeletionWaitsForWhatTheCachesShow(t *testing.T) {
	for what, object := range map[string]runtime.Object{
		"Job ct-1": newJob(), "pod ct-1-a": newRunPod(),
		"address 10.1.0.2 of Network red, which pod ct-1-a held": newBlock("red", "10.1.0.2 ct-1-a Bound Job/ct-1"),
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, newCronTab(true), object)
			calls, err := w.sync(KindCronTab, "ct")
			if err != nil {
				t.Fatal(err)
			}
			same(t, calls, "patch crontabs/status ct uid=uid-of-ct rv=101")
			for _, c := range stored[*stablev1.CronTab](w, "ct").Status.Conditions {
				same(t, c.Message, "the finalizer finalizer.stable.example.com waits for "+what)
			}
		})
	}
}

// The CronTab reports a refusal of the API server, and the write is tried again.
func TestARefusedCronJobIsTold(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newCronTab(false))
	w.refuse = refusing("create cronjobs", apierrors.NewForbidden(batchv1.Resource("cronjobs"), "ct", errors.New("exceeded quota")))
	calls, err := w.sync(KindCronTab, "ct")
	if err == nil {
		t.Error("there is no retry")
	}
	same(t, calls, `
get crontabs ct
create cronjobs ct -> Forbidden
patch crontabs/status ct uid=uid-of-ct rv=102
event on ct: Warning FailedCreate: cronjobs.batch "ct" is forbidden: exceeded quota`)
	same(t, statusOf(w), "next -, Ready=False FailedCreate, Scheduled=False FailedCreate")
	w.catchUp()
	calls, err = w.sync(KindCronTab, "ct")
	if err == nil {
		t.Error("there is no retry")
	}
	same(t, calls, "get crontabs ct\ncreate cronjobs ct -> Forbidden")
}

// If a policy changes a write back, the controller does not repeat the write forever.
func TestAPolicyThatOverrulesIsTold(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newCronTab(false))
	if _, err := w.sync(KindCronTab, "ct"); err != nil {
		t.Fatal(err)
	}
	w.catchUp()
	w.answer = func(obj runtime.Object) {
		if c, ok := obj.(*batchv1.CronJob); ok {
			c.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "mirror.example.com/app:1"
		}
	}
	changed := stored[*batchv1.CronJob](w, "ct").DeepCopy()
	changed.Spec.Schedule = "@daily"
	w.change(changed)
	w.catchUp()
	calls, err := w.sync(KindCronTab, "ct")
	if !errors.Is(err, errOverruled) {
		t.Errorf("it would be retried at once: %v", err)
	}
	if !strings.Contains(calls, "Warning Overruled: CronJob ct does not keep the values of this CronTab (pod template)") {
		t.Errorf("there is no event:\n%s", calls)
	}
	same(t, statusOf(w), "next 2026-01-02T16:00:00Z, Ready=False Overruled, Scheduled=True Scheduled")
}

// A CronJob runs even if the API server changed it on creation.
func TestAnOverruledCronJobRuns(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newCronTab(false))
	w.answer = func(obj runtime.Object) {
		if c, ok := obj.(*batchv1.CronJob); ok {
			c.Spec.TimeZone = ptr.To("Asia/Kolkata")
		}
	}
	if _, err := w.sync(KindCronTab, "ct"); !errors.Is(err, errOverruled) {
		t.Errorf("not overruled: %v", err)
	}
	same(t, statusOf(w), "next 2026-01-02T15:30:00Z, Ready=False Overruled, Scheduled=True Scheduled")
}

func statusOf(w *world) string {
	status := stored[*stablev1.CronTab](w, "ct").Status
	text := "next -"
	if next := status.NextScheduleTime; next != nil {
		text = "next " + next.UTC().Format(time.RFC3339)
	}
	for _, c := range status.Conditions {
		text += fmt.Sprintf(", %s=%s %s", c.Type, c.Status, c.Reason)
	}
	return text
}

func TestCronTabKeys(t *testing.T) {
	going := newCronTab(true)
	going.Name, going.Spec.Networks = "going", nil
	for _, row := range []struct {
		name  string
		event runtime.Object
		want  string
	}{
		{"CronTab", newCronTab(false), "CronTab ct"},
		{"CronJob with its name, of any owner", &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ct"}}, "CronTab ct"},
		{"Job with its label", newJob(), "CronTab ct"},
		{"pod with its label", newRunPod(), "CronTab ct"},
		{"Network that it asks for", newNetwork("blue"), "AddressHistory blue, AddressSlice blue, CronTab ct, Multus blue, Network blue"},
		{"block, while one waits for addresses", newBlock("red"), "AddressHistory red, AddressSlice red, CronTab going, Network red"},
	} {
		t.Run(row.name, func(t *testing.T) {
			same(t, newWorld(t, newCronTab(false), going.DeepCopy()).keysFor(row.event), row.want)
		})
	}
}

// A pod of a run may have lost the label of its CronTab. Only an AddressBlock leads to it.
func TestAGoingCronTabSeesTheHoldersOfAddresses(t *testing.T) {
	for going, want := range map[bool]string{true: "a ct-1-x", false: "ct-1-x"} {
		run := newRunPod()
		run.Name, run.UID = "ct-1-x", "uid-of-ct-1-x"
		w := newWorld(t, newCronTab(going), run, newPod("a on=blue"), newPod("b on=blue"), newPod("c on=blue"),
			newBlock("blue", "10.1.0.2 a Bound", "10.1.0.3 b Reserved", "10.1.0.4 ct-1-x Bound"))
		state, _, err := w.r.kinds.cronTab.observe(Key{KindCronTab, ns, "ct"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, pod := range state.Pods {
			names = append(names, pod.Name)
		}
		same(t, strings.Join(names, " "), want)
	}
}

// Like the API server, which accepts no zone of its own machine.
func TestZone(t *testing.T) {
	for name, want := range map[string]string{
		"Europe/Berlin": "Europe/Berlin", "UTC": "UTC",
		"Local": "names no zone", "local": "names no zone", "": "names no zone", "Europe/Atlantis": "unknown time zone Europe/Atlantis",
	} {
		location, problem := zone(&name)
		if location != nil {
			problem = location.String()
		}
		same(t, problem, want)
	}
	if location, _ := zone(nil); location.String() != "UTC" {
		t.Errorf("without a zone it is %s", location)
	}
}
