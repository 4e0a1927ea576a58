//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"
)

func TestCronTabRefusals(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for _, c := range []struct{ name, manifest, want string }{
		{"name too long", cronTab("v1beta1", strings.Repeat("a", 53), `cronSpec: "@daily"`), "the name of a CronTab must have at most 52 characters"},
		{"no schedule", cronTab("v1", "ct", `replicas: 1`), "spec.cronSpec: Required value"},
		{"negative replicas", cronTab("v1", "ct", `cronSpec: "@daily", replicas: -1`), "should be greater than or equal to 0"},
		{"unknown policy", cronTab("v1", "ct", `cronSpec: "@daily", concurrencyPolicy: Maybe`), `supported values: "Allow", "Forbid", "Replace"`},
		{"a Network twice", cronTab("v1", "ct", `cronSpec: "@daily", networks: [{name: blue}, {name: blue}]`), "Duplicate value"},
		{"two Networks on one interface", cronTab("v1beta1", "ct", `cronSpec: "@daily", networks: [{name: blue, interface: data0}, {name: green, interface: data0}]`), "the interfaces of networks must be unique"},
		{"the loopback interface", cronTab("v1", "ct", `cronSpec: "@daily", networks: [{name: blue, interface: lo}]`), "must not be lo, the loopback interface of every pod"},
		{"unknown field", cronTab("v1", "ct", `cronSpec: "@daily", schedule: "@daily"`), `unknown field "spec.schedule"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := refused(t, ns, c.manifest, "create", "-f", "-"); !strings.Contains(got, c.want) {
				t.Errorf("refused with\n%s\nwant %q in it", got, c.want)
			}
		})
	}
}

// CronTabs with the longest names get Jobs and pods too.
func TestCronTabScaleAndColumns(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	name := strings.Repeat("a", 25) + "." + strings.Repeat("b", 26)
	create(t, ns, cronTab("v1", name, `cronSpec: "0 0 1 1 *"`))
	waitReady(t, ns, "ct/"+name)
	next := time.Date(time.Now().UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	shows := func(name, output, want string) {
		t.Helper()
		table := strings.Fields(run(t, ns, "get", "ct", name, "-o", output))
		if got := strings.Join(table[:len(table)-1], " "); got != want { // without the age
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	shows(name, "", "NAME SPEC SUSPEND ACTIVE LAST NEXT READY AGE "+name+" 0 0 1 1 * false 0 "+next+" True")
	create(t, ns, cronTab("v1", "bad", `cronSpec: "* * * * /5"`))
	waitCondition(t, ns, "ct/bad", "Ready", "False InvalidSchedule")
	shows("bad", "wide", "NAME SPEC SUSPEND ACTIVE LAST NEXT READY REASON AGE bad * * * * /5 false 0 False InvalidSchedule")
	run(t, ns, "scale", "ct", name, "--replicas=3")
	waitCronJob(t, ns, name, "{.spec.jobTemplate.spec.parallelism} {.spec.jobTemplate.spec.completions}", "3 3")
	run(t, ns, "create", "job", "by-hand", "--from=cronjob/"+name)
	run(t, ns, "wait", "--for=jsonpath={.status.succeeded}=3", "job/by-hand", "--timeout="+patience.String())
}

// A restarted controller writes nothing.
func TestCronTabRestIsQuiet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns, withMetrics)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+cronTab("v1", "ct", `cronSpec: "@yearly", networks: [{name: blue}], timeZone: Asia/Tokyo,
		command: [sh], args: [-c, "true"], env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}],
		completions: 4, startingDeadlineSeconds: 60, activeDeadlineSeconds: 60`)+
		cronTab("v1beta1", "bad", `cronSpec: "* * * * /5"`))
	waitReady(t, ns, "ct/ct", "network/blue")
	waitCronJob(t, ns, "ct", "{.spec.jobTemplate.spec.parallelism} {.spec.jobTemplate.spec.completions}", "1 4")
	waitCondition(t, ns, "ct/bad", "Scheduled", "False InvalidSchedule")
	c.waitIdle(t, 1)
	stopped := time.Now()
	if err := c.stop(15); err != nil {
		t.Error(err)
	}
	startController(t, ns, withMetrics).requireQuiet(t, ns, stopped, "crontabs,cronjobs")
}
