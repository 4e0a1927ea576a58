//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// At no moment of the rollout are fewer than replicas - maxUnavailable available; a
// percentage is rounded down. Addresses stay.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+
		pod2("web", `replicas: 5, updateStrategy: {rollingUpdate: {maxUnavailable: "59%"}}`+blue))
	waitReady(t, ns, "pod2/web")
	before := render(addresses(t, ns))
	least := 5
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		n := 0
		for _, pod := range pods {
			if available(pod) {
				n++
			}
		}
		if least = min(least, n); n < 3 {
			return fmt.Sprintf("%d of 5 replicas are available, want at least 3", n)
		}
		return ""
	})
	setVersion(t, ns, "web", "2")
	waitReady(t, ns, "pod2/web")
	f.seenAll(t, ns)
	if least != 3 {
		t.Errorf("at least %d replicas were always available, want 3: the update does not use maxUnavailable", least)
	}
	requireVersion(t, ns, "2", 5)
	waitAddresses(t, ns, before)
}

func requireVersion(t *testing.T, namespace, want string, replicas int) {
	t.Helper()
	var got []string
	for _, pod := range listPods(t, namespace) {
		got = append(got, version(pod))
	}
	if want := slices.Repeat([]string{want}, replicas); !slices.Equal(got, want) {
		t.Errorf("versions of the pods are %q, want %q", got, want)
	}
}

// If the pods of a rollout do not become Ready, it stops after maxUnavailable pods. The
// repaired spec heals it without the deletion of a pod by a user.
func TestBrokenRolloutHeals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, breaks, says, repairs string }{
		{
			"pods that do not become ready",
			`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}},"spec":{"schedulingGates":[{"name":"example.com/hold"}]}}}}`,
			"False Updating: 1 of 3 replicas are updated; web-2 is held by the scheduling gate example.com/hold",
			`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"3"}},"spec":{"schedulingGates":null}}}}`,
		},
		{
			"a Network that does not exist",
			`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}}},"networks":[{"name":"blue"},{"name":"nowhere"}]}}`,
			"False NetworkNotFound: Network nowhere does not exist",
			`{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"3"}}},"networks":[{"name":"blue"}]}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			startController(t, ns)
			create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 3`+blue))
			waitReady(t, ns, "pod2/web")
			held := render(addresses(t, ns))

			var repaired atomic.Bool
			f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
				for _, name := range []string{"web-0", "web-1"} {
					if pod := pods[name]; !repaired.Load() && (pod == nil || pod.DeletionTimestamp != nil) {
						return name + " was deleted by the broken rollout"
					}
				}
				return ""
			})
			patchPod2(t, ns, "web", c.breaks)
			waitCondition(t, ns, "pod2/web", "Ready", c.says)
			f.until(t, "web-2 is updated", func(pods map[string]*corev1.Pod) bool {
				return pods["web-2"] != nil && version(pods["web-2"]) == "2"
			})
			waitReplicas(t, ns, "web", 3)
			f.seenAll(t, ns)
			repaired.Store(true)
			patchPod2(t, ns, "web", c.repairs)
			waitReady(t, ns, "pod2/web")
			requireVersion(t, ns, "3", 3)
			waitAddresses(t, ns, held)
		})
	}
}

// With Recreate, no pod of the new template exists together with an old one, even a
// terminating one.
func TestRecreate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 3, updateStrategy: {type: Recreate}`+blue))
	waitReady(t, ns, "pod2/web")
	before := render(addresses(t, ns))
	hold(t, ns, "web-1")
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		versions := map[string]bool{}
		for _, pod := range pods {
			versions[version(pod)] = true
		}
		if len(versions) > 1 {
			return "pods of the old and of the new template exist at once"
		}
		return ""
	})
	setVersion(t, ns, "web", "2")
	f.until(t, "all other pods are gone", func(pods map[string]*corev1.Pod) bool { return len(pods) == 1 })
	// The status is written after the decision whether to create, on a view that shows
	// this.
	waitReplicas(t, ns, "web", 0)
	waitCondition(t, ns, "pod2/web", "Ready", "False Updating: 0 of 3 replicas are updated")
	release(t, ns, "web-1")
	waitReady(t, ns, "pod2/web")
	f.seenAll(t, ns)
	requireVersion(t, ns, "2", 3)
	if got := render(addresses(t, ns)); strings.TrimSpace(got) != before {
		t.Errorf("addresses were\n%s\nand are\n%s", before, got)
	}
}
