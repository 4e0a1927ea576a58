//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/pkg/attachment"
)

// versions returns the version of each pod's template: "web-0 1, web-1 2".
func versions(t *testing.T, namespace string) string {
	t.Helper()
	pods := listPods(t, namespace)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		texts = append(texts, name+" "+version(pods[name]))
	}
	return strings.Join(texts, ", ")
}

func waitVersions(t *testing.T, namespace, want string) {
	t.Helper()
	eventually(t, "versions of the pods", func(context.Context) (string, error) {
		if got := versions(t, namespace); got != want {
			return fmt.Sprintf("got %s, want %s", got, want), nil
		}
		return "", nil
	})
}

// ofVersion is a Pod2 whose pods have this version.
func ofVersion(name, version, spec string) string {
	return strings.Replace(pod2(name, spec), "metadata: {labels: {app: a}}", fmt.Sprintf("metadata: {labels: {app: a}, annotations: {example.com/version: %q}}", version), 1)
}

// With maxUnavailable 0, every replica stays available. A surge replica comes first, with
// its own address, and is deleted last. Then its address is released.
func TestSurge(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+
		ofVersion("web", "1", `replicas: 3, updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}`+blue))
	waitReady(t, ns, "pod2/web")
	before := render(addresses(t, ns))
	surge := ""
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		n := 0
		for _, pod := range pods {
			if available(pod) {
				n++
			}
		}
		if pod := pods["web-3"]; pod != nil && surge == "" && !attachment.Gated(pod) {
			surge = addressOn(pod, "blue")
		}
		if n < 3 || len(pods) > 4 {
			return fmt.Sprintf("%d of 3 replicas are available, and %d pods exist", n, len(pods))
		}
		return sharedAddress(pods)
	})
	setVersion(t, ns, "web", "2")
	waitReady(t, ns, "pod2/web")
	waitVersions(t, ns, "web-0 2, web-1 2, web-2 2")
	f.seenAll(t, ns)
	if surge == "" || strings.Contains(before, surge+"/") {
		t.Errorf("the surge replica had the address %q, and the others had\n%s", surge, before)
	}
	waitAddresses(t, ns, before)
	eventually(t, "the address of the surge replica is released", func(context.Context) (string, error) {
		if got := ledger(t, ns); strings.Contains(got, surge+" Bound") {
			return "got " + got, nil
		}
		return "", nil
	})
}

// A partition is respected, also above the replicas. A lost replica comes back with its
// earlier version.
func TestPartition(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, ofVersion("web", "1", `replicas: 3, updateStrategy: {rollingUpdate: {partition: 9}}`))
	waitReady(t, ns, "pod2/web")
	setVersion(t, ns, "web", "2")
	waitCondition(t, ns, "pod2/web", "Progressing", "True Complete")
	waitReady(t, ns, "pod2/web")
	waitVersions(t, ns, "web-0 1, web-1 1, web-2 1")
	patchPod2(t, ns, "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}`)
	waitVersions(t, ns, "web-0 1, web-1 1, web-2 2")
	run(t, ns, "delete", "pod", "web-0", "web-2")
	waitVersions(t, ns, "web-0 1, web-1 1, web-2 2")
	waitReady(t, ns, "pod2/web")
	patchPod2(t, ns, "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	waitVersions(t, ns, "web-0 2, web-1 2, web-2 2")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, ofVersion("web", "1", `replicas: 2, paused: true`))
	waitReady(t, ns, "pod2/web")
	setVersion(t, ns, "web", "2")
	waitCondition(t, ns, "pod2/web", "Progressing", "Unknown Paused")
	waitCondition(t, ns, "pod2/web", "Ready", "False Updating: paused: 0 of 2 replicas are updated")
	run(t, ns, "delete", "pod", "web-0")
	run(t, ns, "scale", "pod2", "web", "--replicas=3")
	waitVersions(t, ns, "web-0 1, web-1 1, web-2 1")
	patchPod2(t, ns, "web", `{"spec":{"paused":false}}`)
	waitReady(t, ns, "pod2/web")
	waitVersions(t, ns, "web-0 2, web-1 2, web-2 2")
}

func TestOnDelete(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, ofVersion("web", "1", `replicas: 2, updateStrategy: {type: OnDelete}`))
	waitReady(t, ns, "pod2/web")
	setVersion(t, ns, "web", "2")
	waitReplicas(t, ns, "web", 2)
	run(t, ns, "delete", "pod", "web-0")
	waitVersions(t, ns, "web-0 2, web-1 1")
	waitReady(t, ns, "pod2/web")
}

// Replicas are created and deleted one after the other.
func TestOrderedReady(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		unready := 0
		for name, pod := range pods {
			if !available(pod) {
				unready++
			}
			if name == "web-2" && pods["web-1"] == nil || name == "web-1" && pods["web-0"] == nil {
				return name + " exists without the replica before it"
			}
		}
		if unready > 1 {
			return fmt.Sprintf("%d pods start or terminate at once", unready)
		}
		return ""
	})
	create(t, ns, pod2("web", `replicas: 3, podManagementPolicy: OrderedReady`))
	waitReady(t, ns, "pod2/web")
	run(t, ns, "scale", "pod2", "web", "--replicas=0")
	waitGone(t, ns, "pods")
	f.seenAll(t, ns)
}

// One chosen replica is deleted, and its address is kept for its return.
func TestReserveOrdinals(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 3`+blue))
	waitReady(t, ns, "pod2/web")
	before := addresses(t, ns)
	patchPod2(t, ns, "web", `{"spec":{"reserveOrdinals":[1]}}`)
	waitGoneName(t, ns, "pod/web-1")
	waitReady(t, ns, "pod2/web")
	if after := addresses(t, ns); len(after) != 3 || after["web-0"] != before["web-0"] || after["web-2"] != before["web-2"] || after["web-3"] == "" {
		t.Errorf("addresses are\n%s", render(after))
	}
	patchPod2(t, ns, "web", `{"spec":{"reserveOrdinals":null}}`)
	waitAddresses(t, ns, render(before))
}

func waitGoneName(t *testing.T, namespace, object string) {
	t.Helper()
	run(t, namespace, "wait", "--for=delete", object, "--timeout="+patience.String())
}

// Earlier content gets no new revision, and old revisions are deleted.
func TestRevisionHistory(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, ofVersion("web", "1", `replicas: 1, revisionHistoryLimit: 1`))
	waitReady(t, ns, "pod2/web")
	history := func() string {
		return strings.ReplaceAll(run(t, ns, "get", "controllerrevisions", "--sort-by=.revision", "-o",
			`jsonpath={range .items[*]}{.revision}={.data.template.metadata.annotations.example\.com/version}{"\n"}{end}`), "\n", " ")
	}
	for _, version := range []string{"2", "1", "3"} {
		setVersion(t, ns, "web", version)
		waitVersions(t, ns, "web-0 "+version)
		waitReady(t, ns, "pod2/web")
	}
	eventually(t, "history", func(context.Context) (string, error) {
		if got := history(); got != "3=1 4=3" {
			return "got " + got, nil
		}
		return "", nil
	})
	if got := run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.status.currentRevision} {.status.updateRevision}"); len(strings.Fields(got)) != 2 || strings.Fields(got)[0] != strings.Fields(got)[1] {
		t.Errorf("currentRevision and updateRevision are %s, want two equal names", got)
	}
}

// Missing progress is reported with its cause, and progress continues.
func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 1, progressDeadlineSeconds: 2, networks: [{name: blue}]`))
	waitCondition(t, ns, "pod2/web", "Progressing", "False ProgressDeadlineExceeded: no progress for 2 seconds: Network blue does not exist")
	waitCondition(t, ns, "pod2/web", "Available", "False MinimumReplicasUnavailable")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`))
	waitReady(t, ns, "pod2/web")
	waitCondition(t, ns, "pod2/web", "Progressing", "True Complete")
}

// Autoscalers and disruption budgets use /scale.
func TestAutoscalerAndDisruptionBudget(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 2`)+`---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: samplecrd.k8s.io/v1, kind: Pod2, name: web}
  minReplicas: 4
  maxReplicas: 6
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  maxUnavailable: 25%
  selector: {matchLabels: {samplecrd.k8s.io/pod2: web}}
`)
	eventually(t, "the autoscaler requests 4 replicas", func(context.Context) (string, error) {
		if got := run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.spec.replicas}"); got != "4" {
			return "got " + got, nil
		}
		return "", nil
	})
	waitReady(t, ns, "pod2/web")
	run(t, ns, "wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/web", "--timeout="+patience.String())
	if got := run(t, ns, "get", "pdb", "web", "-o", "jsonpath={.status.desiredHealthy} of {.status.expectedPods}"); got != "3 of 4" {
		t.Errorf("the budget requires %s, want 3 of 4", got)
	}
}
