//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/apis/stable/v1beta1"
)

// cronTab is a manifest. fields are fields of the spec.
func cronTab(version, name, fields string) string {
	return fmt.Sprintf(`---
apiVersion: "stable.example.com/%s"
kind: CronTab
metadata: {name: %q, finalizers: [finalizer.stable.example.com]}
spec: {image: my-awesome-cron-image, %s}
`, version, name, fields)
}

func cronJob(t *testing.T, namespace, name, path string) string {
	t.Helper()
	return run(t, namespace, "get", "cronjob", name, "--ignore-not-found", "-o", "jsonpath="+path)
}

func waitCronJob(t *testing.T, namespace, name, path, want string) {
	t.Helper()
	eventually(t, "CronJob "+name, func(context.Context) (string, error) {
		got, err := kubectl("-n", namespace, "get", "cronjob", name, "-o", "jsonpath="+path)
		if got == want {
			return "", nil
		}
		return fmt.Sprintf("%s is %q, want %q", path, got, want), err
	})
}

const image = "{.spec.jobTemplate.spec.template.spec.containers[*].image}"

// One object can be read and written in both versions, by kubectl and by the clients.
func TestCronTabVersions(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, cronTab("v1beta1", "old", `cronSpec: "* * * * */5"`)+cronTab("v1", "new", `cronSpec: "* * * * */5"`))
	for _, version := range []string{"v1beta1", "v1"} {
		if got := run(t, ns, "get", "crontabs."+version+".stable.example.com", "-o", `jsonpath={range .items[*]}{.apiVersion} {.metadata.name} {.spec.cronSpec} {.spec.replicas},{end}`); got !=
			strings.ReplaceAll("stable.example.com/VERSION new * * * * */5 1,stable.example.com/VERSION old * * * * */5 1,", "VERSION", version) {
			t.Errorf("%s reads %s", version, got)
		}
	}
	beta := sample.StableV1beta1().CronTabs(ns)
	read, err := beta.Get(t.Context(), "new", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read.Spec.Image = "changed"
	if _, err := beta.Update(t.Context(), read, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	stable, err := sample.StableV1().CronTabs(ns).Get(t.Context(), "new", metav1.GetOptions{})
	if err != nil || stable.Spec.Image != "changed" {
		t.Errorf("v1 reads %v, %v", stable, err)
	}
	created, err := beta.Create(t.Context(), &v1beta1.CronTab{ObjectMeta: metav1.ObjectMeta{Name: "typed"}, Spec: stable.Spec}, metav1.CreateOptions{})
	if err != nil || created.Spec.CronSpec != "* * * * */5" {
		t.Errorf("created %v, %v", created, err)
	}
	run(t, ns, "patch", "crontabs", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`, "old", "new")
}

// A schedule in the form of old tutorials is accepted and reported, and does not run until
// it is repaired.
func TestCronTabBadScheduleIsTold(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, cronTab("v1", "ct", `cronSpec: "* * * * /5"`))
	waitCondition(t, ns, "crontab/ct", "Scheduled", `False InvalidSchedule: cronSpec "* * * * /5" does not parse`)
	waitCondition(t, ns, "crontab/ct", "Scheduled", `did you mean "* * * * */5"?`)
	if got := cronJob(t, ns, "ct", "{.metadata.name}"); got != "" {
		t.Errorf("CronJob %s exists, want none", got)
	}
	patch := func(spec string) {
		t.Helper()
		run(t, ns, "patch", "ct", "ct", "--type=merge", "-p", `{"spec":`+spec+`}`)
	}
	patch(`{"cronSpec":"* * * * */5","timeZone":"Europe/Berlin"}`)
	waitReady(t, ns, "ct/ct")
	waitCronJob(t, ns, "ct", "{.spec.schedule} {.spec.timeZone} {.spec.suspend}", "* * * * */5 Europe/Berlin false")
	patch(`{"timeZone":"Europe/Atlantis"}`)
	waitCondition(t, ns, "ct/ct", "Scheduled", "False InvalidTimeZone: ")
	waitCronJob(t, ns, "ct", "{.spec.timeZone} {.spec.suspend}", "Europe/Berlin true")
	patch(`{"timeZone":null}`)
	waitCronJob(t, ns, "ct", "{.spec.timeZone} {.spec.suspend}", " false")
}

// The controller reverts a user's changes in the CronJob, and recreates a deleted one.
func TestCronTabRepairsDrift(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, cronTab("v1", "ct", `cronSpec: "@yearly", env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]`))
	waitReady(t, ns, "ct/ct")
	run(t, ns, "set", "image", "cronjob/ct", "crontab=changed")
	waitCronJob(t, ns, "ct", image, "my-awesome-cron-image")
	run(t, ns, "patch", "cronjob", "ct", "--type=json", "-p", `[{"op":"replace","path":"/spec/suspend","value":true}]`)
	waitCronJob(t, ns, "ct", "{.spec.suspend}", "false")
	before := cronJob(t, ns, "ct", "{.metadata.uid}")
	run(t, ns, "delete", "cronjob", "ct")
	eventually(t, "a new CronJob", func(context.Context) (string, error) {
		if got := cronJob(t, ns, "ct", "{.metadata.uid}"); got == before || got == "" {
			return "got " + got, nil
		}
		return "", nil
	})
	waitReady(t, ns, "ct/ct")
	if n := strings.Count(c.log.String(), `"Updated CronJob"`); n != 2 {
		t.Errorf("the CronJob was updated %d times, want 2", n)
	}
	const pull = "{.spec.jobTemplate.spec.template.spec.containers[*]['image','imagePullPolicy']}"
	waitCronJob(t, ns, "ct", pull, "my-awesome-cron-image Always")
	run(t, ns, "patch", "ct", "ct", "--type=merge", "-p", `{"spec":{"image":"my-awesome-cron-image:v2"}}`)
	waitCronJob(t, ns, "ct", pull, "my-awesome-cron-image:v2 IfNotPresent")
	run(t, ns, "patch", "cronjob", "ct", "--type=merge", "-p", `{"spec":{"jobTemplate":{"spec":{"suspend":true}}}}`)
	waitCronJob(t, ns, "ct", "{.spec.jobTemplate.spec.suspend}", "")
}

func TestCronTabLeavesAForeignCronJobAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	run(t, ns, "create", "cronjob", "ct", "--image=theirs", "--schedule=@yearly")
	create(t, ns, cronTab("v1", "ct", `cronSpec: "@daily"`))
	waitCondition(t, ns, "ct/ct", "Ready", "False NameTaken: CronJob ct already exists and has no controller")
	if got := cronJob(t, ns, "ct", "{.spec.schedule} {.metadata.ownerReferences}"+image); got != "@yearly theirs" {
		t.Errorf("the CronJob is %q", got)
	}
	run(t, ns, "delete", "cronjob", "ct")
	waitReady(t, ns, "ct/ct")
	waitCronJob(t, ns, "ct", "{.spec.schedule}", "@daily")
}

// A CronTab with the finalizer is deleted during a run. First the pods terminate and their
// addresses are released, then the CronTab is removed.
func TestCronTabDeletionWaits(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+cronTab("v1", "ct", `cronSpec: "@yearly", networks: [{name: blue}]`))
	waitReady(t, ns, "ct/ct")
	// A run that does not end by itself: its pod has an address, and another gate keeps it
	// from its node. A CronTab has no field for either, so the controller leaves them.
	run(t, ns, "patch", "cronjob", "ct", "--type=json", "-p", `[
		{"op":"add","path":"/spec/jobTemplate/spec/template/spec/schedulingGates/-","value":{"name":"test.example.com/hold"}},
		{"op":"add","path":"/spec/jobTemplate/spec/template/metadata/finalizers","value":["test.example.com/hold"]}]`)
	run(t, ns, "create", "job", "ct-by-hand", "--from=cronjob/ct")
	eventually(t, "the pod publishes its address", func(context.Context) (string, error) {
		if got := render(addresses(t, ns)); !strings.HasPrefix(got, "ct-by-hand-") {
			return "got " + got, nil
		}
		return "", nil
	})
	// The present run keeps its address.
	run(t, ns, "patch", "ct", "ct", "--type=merge", "-p", `{"spec":{"networks":null}}`)
	run(t, ns, "delete", "ct", "ct", "--wait=false")
	waitCondition(t, ns, "ct/ct", "Ready", "False Terminating: the finalizer finalizer.stable.example.com waits for Job ct-by-hand")
	pod := run(t, ns, "get", "pods", "-o", "name")
	run(t, ns, "patch", pod, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	run(t, ns, "wait", "--for=delete", "ct/ct", "--timeout="+patience.String())
	if got := ledger(t, ns); strings.Contains(got, "Bound") {
		t.Errorf("the CronTab is gone, but its AddressBlocks have\n%s", got)
	}
}

// `--cascade=orphan` keeps the CronJob and its runs, also with the CronTab's finalizer. The
// next CronTab with its name adopts them.
func TestCronTabOrphans(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, cronTab("v1", "ct", `cronSpec: "@yearly"`))
	waitReady(t, ns, "ct/ct")
	run(t, ns, "create", "job", "ct-by-hand", "--from=cronjob/ct")
	run(t, ns, "delete", "ct", "ct", "--cascade=orphan", "--timeout="+patience.String())
	if got := cronJob(t, ns, "ct", "{.metadata.name}{.metadata.deletionTimestamp}{.metadata.ownerReferences}"); got != "ct" {
		t.Errorf("the CronJob is %q, want ct without owner", got)
	}
	run(t, ns, "get", "job", "ct-by-hand")
	uid := cronJob(t, ns, "ct", "{.metadata.uid}")
	create(t, ns, cronTab("v1", "ct", `cronSpec: "@daily"`))
	waitReady(t, ns, "ct/ct")
	waitCronJob(t, ns, "ct", "{.metadata.uid} {.spec.schedule} {.metadata.ownerReferences[*].kind}", uid+" @daily CronTab")
	run(t, ns, "delete", "ct", "ct", "--timeout="+patience.String())
	waitGone(t, ns, "cronjobs,jobs")
}

// Without the CronTab's finalizer, the garbage collector does everything. The controller
// does not remove another owner's finalizer.
func TestCronTabOtherFinalizers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, strings.Replace(cronTab("v1", "ct", `cronSpec: "@yearly"`), "[finalizer.stable.example.com]", "[finalizer.stable.example.com, other.example.com/wait]", 1))
	waitReady(t, ns, "ct/ct")
	run(t, ns, "delete", "ct", "ct", "--wait=false")
	eventually(t, "only the other finalizer remains", func(context.Context) (string, error) {
		if got := run(t, ns, "get", "ct", "ct", "-o", "jsonpath={.metadata.finalizers}"); got != `["other.example.com/wait"]` {
			return "got " + got, nil
		}
		return "", nil
	})
	waitGone(t, ns, "cronjobs")
	run(t, ns, "patch", "ct", "ct", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	waitGone(t, ns, "crontabs")
}
