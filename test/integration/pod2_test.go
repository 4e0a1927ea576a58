//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const blue = `, networks: [{name: blue}]`

// The fields of a replica, as its user reads them.
func TestPod2MakesReplicas(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.1.0.0/24}`)+`---
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web, labels: {team: net, app: beneath}}
spec:
  replicas: 3
  serviceName: peers
  networks: [{name: green, addresses: [10.1.0.10, 10.1.0.11]}, {name: blue}]
  template:
    metadata: {labels: {app: web}, annotations: {example.com/version: "1"}}
    spec: {containers: [{name: c, image: "registry.k8s.io/pause:3.10"}]}
`)
	waitReady(t, ns, "pod2/web")

	owner := getPod2(t, ns, "web")
	got, blues := map[string]string{}, []string{}
	for name, pod := range listPods(t, ns) {
		delete(pod.Labels, "samplecrd.k8s.io/managed")
		held := strings.Fields(addresses(t, ns)[name])
		blues = append(blues, held[0])
		got[name] = fmt.Sprintf("%s.%s version %s of %t %s on %s", pod.Spec.Hostname, pod.Spec.Subdomain, version(pod),
			metav1.IsControlledBy(pod, owner), labelText(pod.Labels), held[1])
	}
	hash := run(t, ns, "get", "controllerrevision", owner.Status.UpdateRevision, "-o", `jsonpath={.metadata.labels.samplecrd\.k8s\.io/pod-template-hash}`)
	want := fmt.Sprintf(`
web-0: web-0.peers version 1 of true app=web,pod-index=0,pod-template-hash=%[1]s,pod2=web,team=net on green=10.1.0.10/24
web-1: web-1.peers version 1 of true app=web,pod-index=1,pod-template-hash=%[1]s,pod2=web,team=net on green=10.1.0.11/24
web-2: web-2.peers version 1 of true app=web,pod-index=2,pod-template-hash=%[1]s,pod2=web,team=net on green=10.1.0.2/24`, hash)
	if got := render(got); got != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
	slices.Sort(blues)
	if got := strings.Join(blues, " "); got != "blue=10.0.0.2/24 blue=10.0.0.3/24 blue=10.0.0.4/24" {
		t.Errorf("the addresses on blue are %s", got)
	}
	if got, want := run(t, ns, "get", "pod2", "web", "--no-headers"), "web 3 3 3 3 blue,green"; !strings.HasPrefix(strings.Join(strings.Fields(got), " "), want) {
		t.Errorf("kubectl get prints %q, want %q", got, want)
	}
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, strings.TrimPrefix(key, "samplecrd.k8s.io/")+"="+labels[key])
	}
	return strings.Join(parts, ",")
}

// `kubectl scale` and autoscalers use only the scale subresource.
func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 1`))
	waitReady(t, ns, "pod2/web")
	run(t, ns, "scale", "pod2", "web", "--current-replicas=1", "--replicas=4")
	waitReady(t, ns, "pod2/web")
	scale, err := sample.SamplecrdV1().Pod2s(ns).GetScale(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selected := run(t, ns, "get", "pods", "-l", scale.Status.Selector, "-o", "jsonpath={.items[*].metadata.name}")
	got := fmt.Sprintf("%d of %d: %s", scale.Status.Replicas, scale.Spec.Replicas, selected)
	if want := "4 of 4: web-0 web-1 web-2 web-3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	run(t, ns, "scale", "pod2", "web", "--replicas=0")
	waitReplicas(t, ns, "web", 0)
	waitGone(t, ns, "pods")
}

// Scaled-down replicas keep their addresses while other addresses are free, even if freed
// addresses do not rest.
func TestScaleDownKeepsAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/28, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 3`+blue))
	waitReady(t, ns, "pod2/web")
	before := render(addresses(t, ns))
	run(t, ns, "scale", "pod2", "web", "--replicas=1")
	waitCondition(t, ns, "pod2/web", "Ready", "True")
	eventually(t, "two addresses are reserved", func(context.Context) (string, error) {
		got, err := kubectl("-n", ns, "get", "network", "blue", "-o", "jsonpath={.status.reserved} {.status.bound}")
		return strings.TrimPrefix(got, "2 1"), err
	})
	create(t, ns, gatedPod("other", "blue"))
	waitReady(t, ns, "pod/other")
	run(t, ns, "scale", "pod2", "web", "--replicas=3")
	waitReady(t, ns, "pod2/web")
	waitAddresses(t, ns, "other: blue=10.0.0.5/28\n"+before)
}

// One pod is deleted, then all pods of a node. Each comes back as a new pod with its name
// and address.
func TestSelfHealing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	nodes := strings.Fields(run(t, ns, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))[:2]
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+fmt.Sprintf(`---
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web}
spec:
  replicas: 6
  networks: [{name: blue}]
  template:
    spec:
      containers: [{name: c, image: "registry.k8s.io/pause:3.10"}]
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}
`, strings.Join(nodes, ", ")))
	waitReady(t, ns, "pod2/web")
	for _, which := range []string{"web-3", "--field-selector=spec.nodeName=" + nodes[0]} {
		before, held := uids(t, ns), render(addresses(t, ns))
		deleted := strings.Count(run(t, ns, "delete", "pod", which), "deleted")
		eventually(t, "the replicas are back", func(context.Context) (string, error) {
			after, reborn := uids(t, ns), 0
			for name, uid := range after {
				if before[name] != uid {
					reborn++
				}
			}
			if len(after) != 6 || reborn != deleted || deleted == 0 {
				return fmt.Sprintf("there are %d pods, %d new ones for %d deleted ones", len(after), reborn, deleted), nil
			}
			return "", nil
		})
		waitAddresses(t, ns, held)
		waitReady(t, ns, "pod2/web")
	}
}

// A spec change that changes no pod is observed, also in the condition: `kubectl wait`
// compares the generation.
func TestObservedGeneration(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 1`))
	waitReady(t, ns, "pod2/web")
	patchPod2(t, ns, "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"50%"}}}}`)
	eventually(t, "the generation is observed", func(context.Context) (string, error) {
		p := getPod2(t, ns, "web")
		c := meta.FindStatusCondition(p.Status.Conditions, "Ready")
		if p.Generation != 2 || p.Status.ObservedGeneration != 2 || c == nil || c.ObservedGeneration != 2 || c.Status != "True" {
			return fmt.Sprintf("generation %d, status %+v", p.Generation, p.Status), nil
		}
		return "", nil
	})
}

// No event reports that a Ready pod becomes available.
func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 1, minReadySeconds: 15`))
	waitCondition(t, ns, "pod2/web", "Ready", "False PodsNotReady: web-0 has been ready for less than minReadySeconds (15)")
	if p := getPod2(t, ns, "web"); p.Status.ReadyReplicas != 1 || p.Status.AvailableReplicas != 0 {
		t.Errorf("status is %+v", p.Status)
	}
	waitReady(t, ns, "pod2/web")
	since := meta.FindStatusCondition(getPod2(t, ns, "web").Status.Conditions, "Ready").LastTransitionTime
	for _, c := range listPods(t, ns)["web-0"].Status.Conditions {
		if took := since.Sub(c.LastTransitionTime.Time); c.Type == corev1.PodReady && took < 15*time.Second {
			t.Errorf("available after %s", took)
		}
	}
}

// Ordinals begin at the start; wanted addresses begin at the first replica.
func TestOrdinalsStart(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+
		pod2("web", `replicas: 2, ordinals: {start: 7}, networks: [{name: blue, addresses: [10.0.0.70, 10.0.0.80]}]`))
	waitReady(t, ns, "pod2/web")
	waitAddresses(t, ns, "web-7: blue=10.0.0.70/24\nweb-8: blue=10.0.0.80/24")
	if got := run(t, ns, "get", "pods", "-l", "samplecrd.k8s.io/pod-index=8", "-o", "name"); got != "pod/web-8" {
		t.Errorf("the pod with index 8 is %q", got)
	}
}

// The objects that remain after each of the three ways to delete a Pod2.
func TestPod2Deletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cascade, wantPods, wantLedger string }{
		{"background", "", ""},
		{"foreground", "", ""},
		{"orphan", "web-0: blue=10.0.0.2/24", "10.0.0.2 Bound web-0"},
	} {
		t.Run(c.cascade, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			startController(t, ns)
			create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 1`+blue))
			waitReady(t, ns, "pod2/web")
			before := uids(t, ns)
			var strangers []string
			f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
				for name, pod := range pods {
					if before[name] != string(pod.UID) {
						strangers = append(strangers, name)
					}
				}
				return strings.Join(strangers, " ")
			})
			run(t, ns, "delete", "pod2", "web", "--cascade="+c.cascade)
			if left := uids(t, ns); c.cascade == "foreground" && len(left) > 0 {
				t.Errorf("the Pod2 was removed before its pods: %s", render(left))
			}
			waitAddresses(t, ns, c.wantPods)
			waitLedger(t, ns, c.wantLedger)
			if c.wantLedger == "" {
				waitGone(t, ns, "ab")
			}
			if after := uids(t, ns); c.cascade == "orphan" && !apiequality.Semantic.DeepEqual(after, before) {
				t.Errorf("pods were %s and are %s", render(before), render(after))
			}
			f.seenAll(t, ns)
		})
	}
}
