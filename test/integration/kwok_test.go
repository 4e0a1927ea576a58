//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These tests show how the stages in hack/localcluster/stages change a pod p. The tests of
// in-place updates depend on them.

const kubeletPod = `{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {%s}}, spec: {%s}}`

// step is a kubectl command and the resulting states of the pod, in order:
//
//	2/2 Running Ready log=busybox:1#1 running, web=nginx:2#2 running
//
// means generation 2, which the status has observed. log runs in its first container, and
// web in its second one, which has another containerID than the first.
type step struct{ kubectl, want string }

func TestKubelet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, annotations, spec string
		steps                   []step
	}{{
		name: "image",
		spec: `containers: [{name: web, image: "nginx:1"}, {name: log, image: "busybox:1"}]`,
		steps: []step{{"", `
			1/0 Pending
			1/1 Running Ready log=busybox:1#1 running, web=nginx:1#1 running`,
		}, {"set image pod/p web=nginx:2", `
			2/1 Running Ready log=busybox:1#1 running, web=nginx:1#1 running
			2/2 Running Ready log=busybox:1#1 running, web=nginx:1#1 running
			2/2 Running log=busybox:1#1 running, web=nginx:1#1 waiting ContainerCreating
			2/2 Running Ready log=busybox:1#1 running, web=nginx:2#2 running`,
		}, {"set image pod/p web=nginx:3 log=busybox:3", `
			3/2 Running Ready log=busybox:1#1 running, web=nginx:2#2 running
			3/3 Running Ready log=busybox:1#1 running, web=nginx:2#2 running
			3/3 Running log=busybox:1#1 waiting ContainerCreating, web=nginx:2#2 waiting ContainerCreating
			3/3 Running Ready log=busybox:3#2 running, web=nginx:3#3 running`,
		}},
	}, {
		name: "broken image",
		spec: `containers: [{name: web, image: "registry.invalid/nginx"}]`,
		steps: []step{{"", `
			1/0 Pending
			1/1 Pending web=registry.invalid/nginx#0 waiting ImagePullBackOff`,
		}, {"set image pod/p web=nginx:2", `
			2/1 Pending web=registry.invalid/nginx#0 waiting ImagePullBackOff
			2/2 Pending web=registry.invalid/nginx#0 waiting ImagePullBackOff
			2/2 Running Ready web=nginx:2#1 running`,
		}, {"set image pod/p web=nginx:broken", `
			3/2 Running Ready web=nginx:2#1 running
			3/3 Running Ready web=nginx:2#1 running
			3/3 Running web=nginx:2#1 waiting ContainerCreating
			3/3 Running web=nginx:2#1 waiting ImagePullBackOff`,
		}, {"set image pod/p web=nginx:2", `
			4/3 Running web=nginx:2#1 waiting ImagePullBackOff
			4/4 Running web=nginx:2#1 waiting ImagePullBackOff
			4/4 Running Ready web=nginx:2#2 running`,
		}},
	}, {
		name: "init containers",
		spec: `containers: [{name: web, image: "nginx:1"}],
			initContainers: [{name: setup, image: "setup:broken"}, {name: side, image: "side:1", restartPolicy: Always}]`,
		steps: []step{{"", `
			1/0 Pending
			1/1 Pending Uninitialized setup=setup:broken#0 waiting ImagePullBackOff, side=side:1#0 waiting PodInitializing, web=nginx:1#0 waiting PodInitializing`,
		}, {"set image pod/p setup=setup:2", `
			2/1 Pending Uninitialized setup=setup:broken#0 waiting ImagePullBackOff, side=side:1#0 waiting PodInitializing, web=nginx:1#0 waiting PodInitializing
			2/2 Pending Uninitialized setup=setup:broken#0 waiting ImagePullBackOff, side=side:1#0 waiting PodInitializing, web=nginx:1#0 waiting PodInitializing
			2/2 Running Ready setup=setup:2#1 terminated Completed, side=side:1#1 running, web=nginx:1#1 running`,
		}, {"set image pod/p setup=setup:3 side=side:3", `
			3/2 Running Ready setup=setup:2#1 terminated Completed, side=side:1#1 running, web=nginx:1#1 running
			3/3 Running Ready setup=setup:2#1 terminated Completed, side=side:1#1 running, web=nginx:1#1 running
			3/3 Running setup=setup:2#1 terminated Completed, side=side:1#1 waiting ContainerCreating, web=nginx:1#1 running
			3/3 Running Ready setup=setup:2#1 terminated Completed, side=side:3#2 running, web=nginx:1#1 running`,
		}},
	}, {
		name: "resize",
		spec: `containers: [{name: web, image: nginx, resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {cpu: 9m}},
			resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]}]`,
		steps: []step{{"", `
			1/0 Pending
			1/1 Running Ready web=nginx#1 running 1m 1Mi`,
		}, {resize("cpu", "2m"), `
			2/1 Running Ready web=nginx#1 running 1m 1Mi
			2/2 Running Ready web=nginx#1 running 1m 1Mi
			2/2 Running Ready web=nginx#1 running 2m 1Mi`,
		}, {resize("memory", "3Mi"), `
			3/2 Running Ready web=nginx#1 running 2m 1Mi
			3/3 Running Ready web=nginx#1 running 2m 1Mi
			3/3 Running web=nginx#1 waiting ContainerCreating 2m 1Mi
			3/3 Running Ready web=nginx#2 running 2m 3Mi`,
		}},
	}, {
		name:        "refused resize",
		annotations: `kwok.samplecrd.k8s.io/resize: Infeasible`,
		spec:        `containers: [{name: web, image: "nginx:1", resources: {requests: {cpu: 1m, memory: 1Mi}}}]`,
		steps: []step{{"", `
			1/0 Pending
			1/1 Running Ready web=nginx:1#1 running 1m 1Mi`,
		}, {resize("cpu", "2m"), `
			2/1 Running Ready web=nginx:1#1 running 1m 1Mi
			2/2 Running Ready web=nginx:1#1 running 1m 1Mi
			2/2 Running Ready PodResizePending/Infeasible web=nginx:1#1 running 1m 1Mi`,
		}, {"annotate pod p --overwrite kwok.samplecrd.k8s.io/resize=Deferred", `
			2/2 Running Ready PodResizePending/Deferred web=nginx:1#1 running 1m 1Mi`,
		}, {"set image pod/p web=nginx:2", `
			3/2 Running Ready PodResizePending/Deferred web=nginx:1#1 running 1m 1Mi
			3/3 Running Ready PodResizePending/Deferred web=nginx:1#1 running 1m 1Mi
			3/3 Running PodResizePending/Deferred web=nginx:1#1 waiting ContainerCreating 1m 1Mi
			3/3 Running Ready PodResizePending/Deferred web=nginx:2#2 running 1m 1Mi`,
		}, {"annotate pod p kwok.samplecrd.k8s.io/resize-", `
			3/3 Running Ready web=nginx:2#2 running 2m 1Mi`,
		}},
	}, {
		name:        "readiness",
		annotations: `kwok.samplecrd.k8s.io/ready: "false"`,
		spec:        `containers: [{name: web, image: nginx}]`,
		steps: []step{{"", `
			1/0 Pending
			1/1 Running web=nginx#1 running`,
		}, {"annotate pod p kwok.samplecrd.k8s.io/ready-", `
			1/1 Running Ready web=nginx#1 running`,
		}},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			f, states := followStates(t, ns)
			for i, s := range tt.steps {
				if i == 0 {
					create(t, ns, fmt.Sprintf(kubeletPod, tt.annotations, tt.spec))
				} else {
					run(t, ns, strings.Fields(s.kubectl)...)
				}
				want := asObserved(strings.ReplaceAll(strings.TrimSpace(s.want), "\t", ""))
				if got := states.next(t, f, strings.Count(want, "\n")+1); got != want {
					t.Fatalf("after %q: got\n%s\nwant\n%s", s.kubectl, got, want)
				}
			}
		})
	}
}

// asObserved changes states to those that this version of Kubernetes shows. Before 1.34, the status
// of a pod has no observedGeneration.
//
//	2/1 Running web=nginx:1#1 running       2/0 Running web=nginx:1#1 running
//	2/2 Running web=nginx:1#1 running  ->   2/0 Running web=nginx:2#2 running
//	2/2 Running web=nginx:2#2 running
func asObserved(states string) string {
	if since(34) {
		return states
	}
	lines := strings.Split(regexp.MustCompile(`(?m)^(\d+)/\d+`).ReplaceAllString(states, "$1/0"), "\n")
	return strings.Join(slices.Compact(lines), "\n")
}

// since says whether the API server is of Kubernetes 1.minor or newer.
func since(minor int) bool { return serverMinor() >= minor }

var serverMinor = sync.OnceValue(func() int {
	version, err := kube.Discovery().ServerVersion()
	if err != nil {
		panic(fmt.Errorf("get the version of the API server: %w", err))
	}
	minor, err := strconv.Atoi(version.Minor)
	if err != nil {
		panic(fmt.Errorf("read the minor version of API server %s: %w", version.GitVersion, err))
	}
	return minor
})

func resize(resource, quantity string) string {
	return fmt.Sprintf(`patch pod p --subresource=resize -p {"spec":{"containers":[{"name":"web","resources":{"requests":{%q:%q}}}]}}`, resource, quantity)
}

// A status that was computed before another change of the pod is not written.
func TestKubeletIsNotLate(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	f, states := followStates(t, ns)
	create(t, ns, fmt.Sprintf(kubeletPod, `kwok.samplecrd.k8s.io/sync-delay: 5s`, `containers: [{name: web, image: "nginx:1"}]`))
	states.next(t, f, 2)
	run(t, ns, "set", "image", "pod/p", "web=nginx:2")
	const changed = "2/1 Running Ready web=nginx:1#1 running\n2/2 Running Ready web=nginx:1#1 running"
	states.next(t, f, 1+strings.Count(asObserved(changed), "\n"))
	fail(t, ns, "p")
	eventually(t, "the delayed status was refused", func(context.Context) (string, error) {
		log, err := os.ReadFile(filepath.Join(filepath.Dir(kubeconfig), "control-plane/clusters/pod2/logs/kwok-controller.log"))
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, ns+"/p") && strings.Contains(line, "the object has been modified") {
				return "", nil
			}
		}
		return "the log has no such line", nil
	})
	if got, want := states.next(t, f, 1), asObserved("2/2 Failed Ready web=nginx:1#1 running"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f.seenAll(t, ns)
	if len(states.lines) != states.read {
		t.Errorf("after the failure: %s", states.lines[states.read:])
	}
}

func TestKubeletRunsJobs(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {
		metadata: {annotations: {kwok.samplecrd.k8s.io/run-seconds: "3"}},
		spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}}`)
	run(t, ns, "wait", "--for=condition=Complete", "--timeout="+patience.String(), "job/j")
	for name, pod := range listPods(t, ns) {
		ran := pod.Status.ContainerStatuses[0].State.Terminated
		if took := ran.FinishedAt.Sub(ran.StartedAt.Time); took < 3*time.Second {
			t.Errorf("%s ran for %s, want 3 s", name, took)
		}
	}
}

// The other fields that a pod has from its first status on.
func TestKubeletStatus(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, fmt.Sprintf(kubeletPod, "", `readinessGates: [{conditionType: example.com/gate}], containers: [{name: web, image: nginx}]`))
	waitReady(t, ns, "pod/p")
	pod, err := kube.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions := map[string]string{}
	for _, c := range pod.Status.Conditions {
		conditions[string(c.Type)] = string(c.Status)
	}
	if got, want := render(conditions), `ContainersReady: True
Initialized: True
PodReadyToStartContainers: True
PodScheduled: True
Ready: True
example.com/gate: True`; got != want {
		t.Errorf("conditions: got\n%s\nwant\n%s", got, want)
	}
	s, c := pod.Status, pod.Status.ContainerStatuses[0]
	if s.PodIP == "" || len(s.PodIPs) == 0 || s.HostIP == "" || len(s.HostIPs) == 0 || s.StartTime == nil {
		t.Errorf("no addresses or startTime: %v", s)
	}
	if !strings.HasPrefix(c.ContainerID, "kwok://") || c.ImageID == "" || c.State.Running.StartedAt.IsZero() {
		t.Errorf("container: %v", c)
	}
}
