//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// setImage changes the image of the template's container.
func setImage(t *testing.T, namespace, name, image string) {
	t.Helper()
	run(t, namespace, "patch", "pod2", name, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image))
}

// running returns the UID, node and image of each replica: "web-0: <uid> <node> <image>".
func running(t *testing.T, namespace string) (identity, images string) {
	t.Helper()
	who, what := map[string]string{}, map[string]string{}
	for name, pod := range listPods(t, namespace) {
		who[name] = string(pod.UID) + " " + pod.Spec.NodeName + " " + addressOn(pod, "blue")
		what[name] = pod.Spec.Containers[0].Image
		if len(pod.Status.ContainerStatuses) > 0 {
			what[name] += fmt.Sprintf(" restarted %d", pod.Status.ContainerStatuses[0].RestartCount)
		}
	}
	return render(who), strings.ReplaceAll(render(what), "\n", ", ")
}

func waitUpdatedInPlace(t *testing.T, namespace string, replicas int, before string) {
	t.Helper()
	eventually(t, "all replicas are updated", func(context.Context) (string, error) {
		p := getPod2(t, namespace, "web") // a single read, so status and generation belong together
		if s := p.Status; s.ObservedGeneration != p.Generation || int(s.UpdatedReplicas) != replicas || int(s.AvailableReplicas) != replicas {
			return fmt.Sprintf("%d updated and %d available of %d replicas, observedGeneration %d of %d", s.UpdatedReplicas, s.AvailableReplicas, replicas, s.ObservedGeneration, p.Generation), nil
		}
		return "", nil
	})
	if after, _ := running(t, namespace); after != before {
		t.Errorf("pods were\n%s\nand are\n%s", before, after)
	}
}

// An image is changed in the running pods: same UID, node and address. At no moment are
// fewer available than maxUnavailable allows, counted by the images that containers run.
func TestInPlaceImage(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 4`+blue))
	waitReady(t, ns, "pod2/web")
	before, _ := running(t, ns)
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		n := 0
		for _, pod := range pods {
			// The pod is Ready and runs the image of its spec: a late status does not
			// count.
			if available(pod) && strings.HasSuffix(pod.Status.ContainerStatuses[0].Image, pod.Spec.Containers[0].Image) {
				n++
			}
		}
		if n < 3 {
			return fmt.Sprintf("%d of 4 replicas run the right image, want at least 3", n)
		}
		return ""
	})
	setImage(t, ns, "web", "registry.k8s.io/pause:3.11")
	waitUpdatedInPlace(t, ns, 4, before)
	waitReady(t, ns, "pod2/web")
	f.seenAll(t, ns)
	if _, images := running(t, ns); images != "web-0: registry.k8s.io/pause:3.11 restarted 1, web-1: registry.k8s.io/pause:3.11 restarted 1, "+
		"web-2: registry.k8s.io/pause:3.11 restarted 1, web-3: registry.k8s.io/pause:3.11 restarted 1" {
		t.Errorf("the replicas run %s", images)
	}
	waitEvent(t, ns, "involvedObject.kind=Pod2,reason=Updating", "updated web-3 in place: image of c")
}

// New labels restart nothing and wait for nothing; a new annotation recreates the pods.
func TestInPlaceLabelsAndNotAnnotations(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 3`))
	waitReady(t, ns, "pod2/web")
	before, images := running(t, ns)
	patchPod2(t, ns, "web", `{"spec":{"template":{"metadata":{"labels":{"app":null,"tier":"front"}}}}}`)
	waitUpdatedInPlace(t, ns, 3, before)
	if _, after := running(t, ns); after != images {
		t.Errorf("the replicas run %s, and before %s", after, images)
	}
	for name, pod := range listPods(t, ns) {
		if _, old := pod.Labels["app"]; old || pod.Labels["tier"] != "front" {
			t.Errorf("%s has labels %v", name, pod.Labels)
		}
	}
	setVersion(t, ns, "web", "2")
	waitVersions(t, ns, "web-0 2, web-1 2, web-2 2")
	waitEvent(t, ns, "involvedObject.kind=Pod2,reason=SuccessfulDelete", "template.metadata.annotations cannot be changed in a running pod")
}

const cpu = `[{"op":"replace","path":"/spec/template/spec/containers/0/resources","value":{"requests":{"cpu":%q}}}]`

// A change of cpu uses the subresource resize. If the node cannot do it, the pod is
// recreated.
func TestInPlaceResize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, annotations, recreated string }{
		{"feasible", "", ""},
		{"infeasible", `kwok.samplecrd.k8s.io/resize: Infeasible`, "its resources cannot be changed: Infeasible"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			startController(t, ns)
			manifest := strings.Replace(pod2("web", `replicas: 2`), "labels: {app: a}", "labels: {app: a}, annotations: {"+c.annotations+"}", 1)
			create(t, ns, strings.Replace(manifest, "pause:3.10}", "pause:3.10, resources: {requests: {cpu: 100m}}}", 1))
			waitReady(t, ns, "pod2/web")
			before, images := running(t, ns)
			run(t, ns, "patch", "pod2", "web", "--type=json", "-p", fmt.Sprintf(cpu, "200m"))
			if c.recreated == "" {
				waitUpdatedInPlace(t, ns, 2, before)
				if _, after := running(t, ns); after != images {
					t.Errorf("the replicas run %s, and before %s", after, images)
				}
			} else {
				eventually(t, "the event has the reason", func(context.Context) (string, error) {
					events := run(t, ns, "get", "events", "--field-selector=involvedObject.kind=Pod2,reason=SuccessfulDelete", "-o", "jsonpath={.items[*].message}")
					if !strings.Contains(events, c.recreated) {
						return events, nil
					}
					return "", nil
				})
				waitReady(t, ns, "pod2/web")
				if after, _ := running(t, ns); after == before {
					t.Error("no pod was recreated")
				}
			}
			for name, pod := range listPods(t, ns) {
				if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "200m" {
					t.Errorf("%s asks for %s", name, got)
				}
			}
		})
	}
}

// setResources replaces the resources of the template's container.
func setResources(t *testing.T, namespace, resources string) {
	t.Helper()
	run(t, namespace, "patch", "pod2", "web", "--type=json", "-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/resources","value":`+resources+`}]`)
}

// withContainer is a Pod2 web with additional fields of its container.
func withContainer(spec, container string) string {
	return strings.Replace(pod2("web", spec), "pause:3.10}", "pause:3.10, "+container+"}", 1)
}

// The API server gave the pods requests equal to their limits, so a resize must change
// both.
func TestInPlaceResizeOfLimitsAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, withContainer(`replicas: 2`, `resources: {limits: {cpu: 100m, memory: 64Mi}}`))
	waitReady(t, ns, "pod2/web")
	before, _ := running(t, ns)
	setResources(t, ns, `{"limits":{"cpu":"200m","memory":"64Mi"}}`)
	waitUpdatedInPlace(t, ns, 2, before)
	for name, pod := range listPods(t, ns) {
		if r := pod.Spec.Containers[0].Resources; r.Requests.Cpu().String() != "200m" || r.Limits.Cpu().String() != "200m" {
			t.Errorf("%s has %v", name, r)
		}
	}
}

// A resize with a restart takes replicas out of service one by one.
func TestInPlaceResizeThatRestarts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, withContainer(`replicas: 3`, `resources: {requests: {cpu: 100m}}, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]`))
	waitReady(t, ns, "pod2/web")
	before, _ := running(t, ns)
	f := follow(t, ns, func(pods map[string]*corev1.Pod) string {
		n := 0
		for _, pod := range pods {
			if available(pod) {
				n++
			}
		}
		if n < 2 {
			return fmt.Sprintf("%d of 3 replicas are available, want at least 2", n)
		}
		return ""
	})
	run(t, ns, "patch", "pod2", "web", "--type=json", "-p", fmt.Sprintf(cpu, "200m"))
	waitUpdatedInPlace(t, ns, 3, before)
	f.seenAll(t, ns)
	if _, images := running(t, ns); strings.Count(images, "restarted 1") != 3 {
		t.Errorf("the replicas run %s", images)
	}
}

// The node defers a resize, and a user reverts it: no pod keeps asking for it.
func TestInPlaceResizeUndone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	manifest := strings.Replace(withContainer(`replicas: 2`, `resources: {requests: {cpu: 100m}}`), "labels: {app: a}", "labels: {app: a}, annotations: {kwok.samplecrd.k8s.io/resize: Deferred}", 1)
	create(t, ns, manifest)
	waitReady(t, ns, "pod2/web")
	before, _ := running(t, ns)
	asked := func(want string) {
		eventually(t, "the pods request "+want, func(context.Context) (string, error) {
			for name, pod := range listPods(t, ns) {
				if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != want {
					return name + " asks for " + got, nil
				}
			}
			return "", nil
		})
	}
	run(t, ns, "patch", "pod2", "web", "--type=json", "-p", fmt.Sprintf(cpu, "200m"))
	asked("200m")
	run(t, ns, "patch", "pod2", "web", "--type=json", "-p", fmt.Sprintf(cpu, "100m"))
	asked("100m")
	waitUpdatedInPlace(t, ns, 2, before)
}

// The API server refuses a resize, here one above the limits that admission gave the pods.
// The controller requests it once, and then recreates the pods one by one.
func TestInPlaceResizeRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, `
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, default: {cpu: 100m, memory: 64Mi}}]}
---
`+withContainer(`replicas: 2`, `resources: {requests: {cpu: 100m, memory: 64Mi}}`))
	waitReady(t, ns, "pod2/web")
	before, _ := running(t, ns)
	run(t, ns, "delete", "limitrange", "small")
	setResources(t, ns, `{"requests":{"cpu":"200m","memory":"64Mi"}}`)
	eventually(t, "the event has the reason", func(context.Context) (string, error) {
		events := run(t, ns, "get", "events", "--field-selector=involvedObject.kind=Pod2,reason=SuccessfulDelete", "-o", "jsonpath={.items[*].message}")
		if !strings.Contains(events, "its resources cannot be changed: ") || !strings.Contains(events, "must be less than or equal to cpu limit") {
			return events, nil
		}
		return "", nil
	})
	waitReady(t, ns, "pod2/web")
	if after, _ := running(t, ns); after == before {
		t.Error("no pod was recreated")
	}
}

// A bad image is followed by a good one. The Pod2 heals by itself, and lacks one replica
// meanwhile.
func TestBrokenImageHeals(t *testing.T) {
	t.Parallel()
	for _, inPlace := range []string{"IfPossible", "Never"} {
		t.Run(inPlace, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			startController(t, ns)
			create(t, ns, pod2("web", `replicas: 3, updateStrategy: {inPlace: `+inPlace+`}`))
			waitReady(t, ns, "pod2/web")
			setImage(t, ns, "web", "registry.invalid/pause:3.11")
			waitCondition(t, ns, "pod2/web", "Ready", "False Updating: 1 of 3 replicas are updated; web-2 is not ready (")
			waitCondition(t, ns, "pod2/web", "Ready", "ImagePullBackOff")
			waitCondition(t, ns, "pod2/web", "Available", "True MinimumReplicasAvailable: 2 replicas are available (at least 2 required)")
			setImage(t, ns, "web", "registry.k8s.io/pause:3.12")
			waitReady(t, ns, "pod2/web")
			if _, images := running(t, ns); strings.Count(images, "pause:3.12") != 3 {
				t.Errorf("the replicas run %s", images)
			}
		})
	}
}
