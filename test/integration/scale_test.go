//go:build integration

package integration

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// 2,000 replicas on one Network, on 20 nodes of 110 pods. Not parallel: the nodes
// hold little more, and the times that are logged are to mean something.
func TestTwoThousandReplicas(t *testing.T) {
	const replicas = 2000
	ns := newNamespace(t)
	c := startController(t, ns, withMetrics)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/16, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 2000`+blue))
	begin := time.Now()
	took := func(what string) { t.Logf("%6.1f s: %s", time.Since(begin).Seconds(), what) }
	within(t, 3*patience, "all exist", func(context.Context) (string, error) { // a sync creates them all before it says so
		if got := run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.status.replicas}"); got != "2000" {
			return "status.replicas is " + got, nil
		}
		return "", nil
	})
	took("all exist")
	waitReady(t, ns, "pod2/web")
	took("all are Ready")

	held := map[string]bool{}
	for _, pod := range listPods(t, ns) {
		if address := addressOn(pod, "blue"); address != "" {
			held[address] = true
		}
	}
	if len(held) != replicas {
		t.Errorf("%d addresses are held by %d replicas", len(held), replicas)
	}
	if why := ledgerDiffers(t, ns); why != "" {
		t.Error(tail(why, 20))
	}
	waitNames(t, ns)
	c.waitIdle(t, 1)
	took("the controller is idle")
	if named := requireNames(t, ns, "web-blue"); named != replicas {
		t.Errorf("%d names are given to %d replicas", named, replicas)
	}
	// 20 slices, each written a few times a second as long as replicas come up.
	made, _ := writes(t, ns, begin)
	made = slices.DeleteFunc(made, func(line string) bool { return !strings.Contains(line, " endpointslices/") })
	t.Logf("%d writes of slices", len(made))
	if len(made) > replicas/4 {
		t.Errorf("slices of %d replicas were written %d times", replicas, len(made))
	}
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}

	begin = time.Now()
	c = startController(t, ns, withMetrics)
	c.waitIdle(t, replicas)
	took("a second controller has looked at everything")
	c.requireQuiet(t, ns, begin, "pod2s,networks,ab")

	begin = time.Now()
	run(t, ns, "delete", "pod2", "web", "--cascade=foreground")
	took("all are deleted")
	waitGone(t, ns, "pods,ab")
	eventually(t, "the Network is as new", func(context.Context) (string, error) {
		got := run(t, ns, "get", "network", "blue", "-o", "jsonpath={.status.bound} {.status.reserved} {.status.resting} {.status.available}")
		return strings.TrimPrefix(got, "0 0 0 65533"), nil
	})
	took("the ledger is empty")
}

// Pods that are just starting change all the time, while each deletion is of a pod as
// it was seen. That one changed holds up no other, and is no failure.
func TestScaleDownOfStartingPods(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/16}`)+pod2("web", `replicas: 300`+blue))
	ready := ""
	eventually(t, "some are Ready", func(context.Context) (string, error) {
		if ready = run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.status.readyReplicas}"); ready == "" || ready == "0" {
			return "none is", nil
		}
		return "", nil
	})
	begin := time.Now()
	run(t, ns, "scale", "pod2", "web", "--replicas=0")
	waitGone(t, ns, "pods")
	t.Logf("300 pods, of which %s were Ready, are gone after %.1f s", ready, time.Since(begin).Seconds())
	if log := c.log.String(); strings.Contains(log, "Sync failed") {
		t.Errorf("what changed meanwhile counts as a failure:\n%s", tail(log, 20))
	}
}
