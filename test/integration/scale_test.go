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

// 2,000 replicas on one Network, on 20 nodes of 110 pods. Not parallel: the nodes hold few
// more pods, and other tests would distort the logged times.
func TestTwoThousandReplicas(t *testing.T) {
	const replicas = 2000
	ns := newNamespace(t)
	c := startController(t, ns, withMetrics)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/16, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 2000`+blue))
	begin := time.Now()
	took := func(what string) { t.Logf("%6.1f s: %s", time.Since(begin).Seconds(), what) }
	within(t, 3*patience, "all replicas exist", func(context.Context) (string, error) { // a sync creates all pods before it writes the status
		if got := run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.status.replicas}"); got != "2000" {
			return "status.replicas is " + got, nil
		}
		return "", nil
	})
	took("all exist")
	waitReady(t, ns, "pod2/web")
	took("all replicas are Ready")

	held := map[string]bool{}
	for _, pod := range listPods(t, ns) {
		if address := addressOn(pod, "blue"); address != "" {
			held[address] = true
		}
	}
	if len(held) != replicas {
		t.Errorf("there are %d addresses for %d replicas", len(held), replicas)
	}
	if why := ledgerDiffers(t, ns); why != "" {
		t.Error(tail(why, 20))
	}
	waitNames(t, ns)
	c.waitIdle(t, 1)
	took("the controller is idle")
	if named := requireNames(t, ns, "web-blue"); named != replicas {
		t.Errorf("there are %d names for %d replicas", named, replicas)
	}
	// 20 EndpointSlices, each written a few times a second while replicas start.
	made, _ := writes(t, ns, begin)
	made = slices.DeleteFunc(made, func(line string) bool { return !strings.Contains(line, " endpointslices/") })
	t.Logf("%d writes of EndpointSlices", len(made))
	if len(made) > replicas/4 {
		t.Errorf("the EndpointSlices of %d replicas were written %d times", replicas, len(made))
	}
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}

	begin = time.Now()
	c = startController(t, ns, withMetrics)
	c.waitIdle(t, 1) // pods with their addresses are not synced
	took("a second controller is idle")
	c.requireQuiet(t, ns, begin, "pod2s,networks,ab")

	begin = time.Now()
	run(t, ns, "delete", "pod2", "web", "--cascade=foreground")
	took("all replicas are deleted")
	waitGone(t, ns, "pods,ab")
	eventually(t, "the Network has no addresses in use", func(context.Context) (string, error) {
		got := run(t, ns, "get", "network", "blue", "-o", "jsonpath={.status.bound} {.status.reserved} {.status.resting} {.status.available}")
		return strings.TrimPrefix(got, "0 0 0 65533"), nil
	})
	took("the AddressBlocks are empty")
}

// Starting pods change all the time, and each deletion requires the version that the
// controller saw. A changed pod does not hold up the deletion of other pods, and is not a
// failure.
func TestScaleDownOfStartingPods(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/16}`)+pod2("web", `replicas: 300`+blue))
	ready := ""
	eventually(t, "some replicas are Ready", func(context.Context) (string, error) {
		if ready = run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.status.readyReplicas}"); ready == "" || ready == "0" {
			return "none is", nil
		}
		return "", nil
	})
	begin := time.Now()
	run(t, ns, "scale", "pod2", "web", "--replicas=0")
	waitGone(t, ns, "pods")
	t.Logf("300 pods, %s of them Ready, are gone after %.1f s", ready, time.Since(begin).Seconds())
	if log := c.log.String(); strings.Contains(log, "Sync failed") {
		t.Errorf("a pod that changed meanwhile counts as a failure:\n%s", tail(log, 20))
	}
}
