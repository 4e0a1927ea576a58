//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A quota admits some replicas, and the Pod2 reports the API server's message for the
// others. Scaling down still works. With a larger quota, the Pod2 heals without a user's
// action.
func TestQuota(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: "3"}}
`)
	eventually(t, "the quota is enforced", func(context.Context) (string, error) {
		return strings.TrimSuffix("hard "+run(t, ns, "get", "quota", "few", "-o", "jsonpath={.status.hard.pods}"), "hard 3"), nil
	})
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 5`))
	waitCondition(t, ns, "pod2/web", "Ready", `is forbidden: exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3`)
	waitCondition(t, ns, "pod2/web", "Ready", `False FailedCreate: pods "web-`)
	waitReplicas(t, ns, "web", 3)
	run(t, ns, "scale", "pod2", "web", "--replicas=2")
	waitReady(t, ns, "pod2/web")
	run(t, ns, "scale", "pod2", "web", "--replicas=5")
	waitCondition(t, ns, "pod2/web", "Ready", "False FailedCreate")
	run(t, ns, "patch", "quota", "few", "--type=merge", "-p", `{"spec":{"hard":{"pods":"9"}}}`)
	waitReady(t, ns, "pod2/web")
}

// The API server refuses a template only when a pod is created from it. The condition and
// an event have its message, the attempts become rare, and a repaired template heals the
// Pod2.
func TestTemplateRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	since := time.Now()
	create(t, ns, strings.ReplaceAll(pod2("web", `replicas: 3`), "name: c,", "name: Not_A_Label,"))
	waitCondition(t, ns, "pod2/web", "Ready", `False FailedCreate: Pod "web-0" is invalid: spec.containers[0].name: Invalid value: "Not_A_Label"`)
	eventually(t, "the controller tries again and again", func(context.Context) (string, error) {
		lines, times := writes(t, ns, since)
		var attempts []time.Time
		for i, line := range lines {
			if strings.HasPrefix(line, "create pods/web-0 ") {
				attempts = append(attempts, times[i])
			}
		}
		// A few attempts follow events. The others come after 5, 10, 20, ... ms, so the
		// seventh of these is not before 635 ms.
		const few, many = 4, 11
		if len(attempts) < many {
			return "only " + strings.Join(lines, "; "), nil
		}
		if took := attempts[many-1].Sub(attempts[0]); took < 635*time.Millisecond {
			t.Errorf("there were %d attempts within %s, and at most %d should follow events: this is a hot loop", many, took, few)
		}
		return "", nil
	})
	waitEvent(t, ns, "reason=FailedCreate", "Not_A_Label")
	patchPod2(t, ns, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"registry.k8s.io/pause:3.10"}]}}}}`)
	waitReady(t, ns, "pod2/web")
}

// A Network and a Pod2 can be created in either order.
func TestNetworkCreatedAfterPod2(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 2, networks: [{name: blue}, {name: green}]`)+network("blue", `{cidr: 10.0.0.0/24}`))
	waitCondition(t, ns, "pod2/web", "Ready", "False NetworkNotFound: Network green does not exist")
	create(t, ns, network("green", `{cidr: 10.1.0.0/24}`))
	waitReady(t, ns, "pod2/web")
}
