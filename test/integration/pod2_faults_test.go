//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// A controller that starts on a cluster with all pods creates none.
func TestStartOnExistingPods(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 5`+blue))
	waitReady(t, ns, "pod2/web")
	before := render(uids(t, ns))
	_ = c.stop(syscall.SIGKILL)
	startController(t, ns, withMetrics).waitIdle(t, 1)
	if after := render(uids(t, ns)); after != before {
		t.Errorf("pods were\n%s\nand are\n%s", before, after)
	}
}

// A Pod2 is deleted and at once recreated under its name. The old pods, which stay a while,
// are not counted as its replicas. In the end there are only the new pods, with the
// addresses of the old ones.
func TestRecreatedUnderTheSameName(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	manifest := pod2("web", `replicas: 3`+blue)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+manifest)
	waitReady(t, ns, "pod2/web")
	old, held := uids(t, ns), render(addresses(t, ns))
	hold(t, ns, "web-0", "web-1", "web-2")
	run(t, ns, "delete", "pod2", "web", "--cascade=background", "--wait=false")
	create(t, ns, manifest)
	waitCondition(t, ns, "pod2/web", "Ready", "False WaitingForDeletion: web-0 of an earlier Pod2 web still exists")
	waitReplicas(t, ns, "web", 0)
	if now := uids(t, ns); !maps.Equal(now, old) {
		t.Errorf("pods were\n%s\nand are\n%s", render(old), render(now))
	}
	// The garbage collector of this cluster learns of new kinds every 30 s.
	eventually(t, "the old pods are terminating", func(context.Context) (string, error) {
		for name, pod := range listPods(t, ns) {
			if pod.DeletionTimestamp == nil {
				return name + " is not", nil
			}
		}
		return "", nil
	})
	release(t, ns, "web-0", "web-1", "web-2")
	waitReady(t, ns, "pod2/web")
	owner := string(getPod2(t, ns, "web").UID)
	got := run(t, ns, "get", "pods", "-o", "jsonpath={.items[*].metadata.ownerReferences[*].uid}")
	if want := strings.Join([]string{owner, owner, owner}, " "); got != want {
		t.Errorf("owners are %s, want %s", got, want)
	}
	waitAddresses(t, ns, held)
}

// The controller never changes another owner's pod with the name of a replica, whichever
// labels the pod has. The Pod2 reports it and runs its other replicas. It creates this
// replica when the name is free.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, labels, owner, says string }{
		{"a bare pod", `{}`, "", "has no controller"},
		{"a bare pod with the watched label", `{samplecrd.k8s.io/managed: "true"}`, "", "has no controller"},
		{"a pod with all labels of a replica", `{samplecrd.k8s.io/managed: "true", samplecrd.k8s.io/pod2: web}`, "", "has no controller"},
		{"a pod of another owner", `{samplecrd.k8s.io/managed: "true", samplecrd.k8s.io/pod2: web}`,
			`ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: keeper, uid: %s, controller: true}]`, "is owned by ConfigMap keeper"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			if c.owner != "" {
				run(t, ns, "create", "configmap", "keeper")
				c.owner = fmt.Sprintf(c.owner, run(t, ns, "get", "configmap", "keeper", "-o", "jsonpath={.metadata.uid}"))
			}
			create(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: %s, %s}
spec: {containers: [{name: c, image: "registry.k8s.io/pause:3.10"}]}
`, c.labels, c.owner))
			waitReady(t, ns, "pod/web-1")
			before := run(t, ns, "get", "pod", "web-1", "-o", "yaml")
			since := time.Now()
			startController(t, ns)
			create(t, ns, pod2("web", `replicas: 3, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}`))
			waitCondition(t, ns, "pod2/web", "Ready", "False NameTaken: pod web-1 already exists and "+c.says)
			waitReplicas(t, ns, "web", 2)
			setVersion(t, ns, "web", "2")
			eventually(t, "the other replicas are updated", func(context.Context) (string, error) {
				return strings.TrimSuffix(run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.status.updatedReplicas} of {.status.replicas}"), "2 of 2"), nil
			})
			if after := run(t, ns, "get", "pod", "web-1", "-o", "yaml"); after != before {
				t.Errorf("the pod was\n%s\nand is\n%s", before, after)
			}
			run(t, ns, "delete", "pod", "web-1")
			waitReady(t, ns, "pod2/web")
			all, _ := writes(t, ns, since)
			for _, write := range all {
				if strings.Contains(write, " pods/web-1") && !strings.HasPrefix(write, "create pods/web-1 ") {
					t.Errorf("the controller wrote to the other owner's pod: %s", write)
				}
			}
		})
	}
}

// A terminating pod counts until it is gone, even if it is scaled down: no replica is
// created in its place.
func TestTerminatingReplicaCounts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 3`))
	waitReady(t, ns, "pod2/web")
	hold(t, ns, "web-2")
	run(t, ns, "scale", "pod2", "web", "--replicas=2")
	waitReady(t, ns, "pod2/web")
	before := uids(t, ns)
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		if web0 := pods["web-0"]; pods["web-2"] != nil && web0 != nil && string(web0.UID) != before["web-0"] {
			return "web-0 was replaced while there were as many pods as replicas"
		}
		return ""
	})
	run(t, ns, "delete", "pod", "web-0")
	// The status is written after the decision whether to create, on a view that shows
	// this.
	waitReplicas(t, ns, "web", 1)
	waitCondition(t, ns, "pod2/web", "Ready", "False PodsNotReady: web-0 does not exist yet")
	release(t, ns, "web-2")
	waitReady(t, ns, "pod2/web")
	f.seenAll(t, ns)
}

// A failed pod is replaced at once, then after 10 s, then after 20 s. The API stores the
// count, so a killed controller does not forget it.
func TestFailedReplicaBacksOff(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 2`+blue))
	waitReady(t, ns, "pod2/web")
	since, held := time.Now().Add(-time.Minute), render(addresses(t, ns))
	for failures, delay := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		failed := uids(t, ns)["web-1"]
		fail(t, ns, "web-1")
		type entry struct {
			UID      string
			Failures int
			Since    time.Time
		}
		var record entry
		eventually(t, "the failure is recorded", func(context.Context) (string, error) {
			annotation := getPod2(t, ns, "web").Annotations[v1.BackoffAnnotation]
			records := map[string]entry{}
			_ = json.Unmarshal([]byte(annotation), &records)
			record = records["web-1"]
			if record.UID == failed && record.Failures == failures+1 && len(records) == 1 {
				return "", nil
			}
			return fmt.Sprintf("annotation %q", annotation), nil
		})
		if delay == 20*time.Second {
			waitCondition(t, ns, "pod2/web", "Ready", "False PodsFailing: web-1 terminated 3 times (Failed: Evicted)")
			_ = c.stop(syscall.SIGKILL)
			c = startController(t, ns)
		}
		eventually(t, "the pod is replaced", func(context.Context) (string, error) {
			if uid := uids(t, ns)["web-1"]; uid == "" || uid == failed {
				return "not yet", nil
			}
			return "", nil
		})
		if waited := listPods(t, ns)["web-1"].CreationTimestamp.Sub(record.Since); waited < delay {
			t.Errorf("the pod was replaced %s after failure %d, want at least %s", waited, failures+1, delay)
		}
		waitReady(t, ns, "pod2/web")
	}
	waitAddresses(t, ns, held)
	all, _ := writes(t, ns, since)
	made := slices.DeleteFunc(all, func(write string) bool { return write != "create pods/web-1 201" })
	if len(made) != 4 {
		t.Errorf("web-1 was created %d times, want 4:\n%s", len(made), strings.Join(made, "\n"))
	}
}
