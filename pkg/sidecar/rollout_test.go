package sidecar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/test/chance"
)

// proxies returns a Ready Sidecar with a container and a native sidecar. Its images have
// changed since generation from.
func proxies(generation, from int64, image string) *v1.Sidecar {
	s := mesh(generation)
	s.Spec = v1.SidecarSpec{
		Selector:       map[string]string{"app": "web"},
		Containers:     []corev1.Container{{Name: "logs", Image: image}},
		InitContainers: []corev1.Container{{Name: "setup", Image: "setup:1"}, {Name: "proxy", Image: image, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
	}
	s.Status.Injected = &v1.SidecarGeneration{Generation: generation, InPlaceFrom: from, Spec: s.Spec}
	return s
}

// proxied is a pod that has the Sidecar, and has been Ready for some minutes; 0: not Ready.
func proxied(name string, generation, minutes int, image string) *corev1.Pod {
	pod := podWith(fmt.Sprintf("a=1/0/0/0,mesh=%d/2/0/1,z=3/0/0/0", generation), minutes > 0)
	pod.Name, pod.UID, pod.ResourceVersion = name, "uid", "7"
	if minutes > 0 {
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))
	}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}, {Name: "logs", Image: image}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "setup:1"}, {Name: "proxy", Image: image}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "logs", ContainerID: "id-logs", Ready: true}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", ContainerID: "id-proxy", Ready: true}}
	return pod
}

func updated(s State) string {
	var names []string
	for _, u := range Updates(s) {
		names = append(names, u.Pod.Name)
	}
	return strings.Join(names, " ")
}

func TestUpdates(t *testing.T) {
	ready := func() []*corev1.Pod {
		return []*corev1.Pod{proxied("a", 2, 1, "p:1"), proxied("b", 2, 3, "p:1"), proxied("c", 2, 2, "p:1"), proxied("d", 2, 4, "p:1")}
	}
	for _, tt := range []struct {
		name, want string
		change     func(*State)
	}{
		{"the longest Ready first", "d", func(*State) {}},
		{"maxUnavailable", "d b", func(s *State) { s.Sidecar.Spec.UpdateStrategy.MaxUnavailable = ptr.To(intstr.FromString("60%")) }},
		{"a Pod2 that spares none takes no slot", "b", func(s *State) {
			s.Pods[3].OwnerReferences = []metav1.OwnerReference{{APIVersion: "samplecrd.k8s.io/v1", Kind: "Pod2", Name: "web", Controller: ptr.To(true)}}
			s.SparesNone = map[string]bool{"web": true}
		}},
		{"at least one", "d", func(s *State) { s.Sidecar.Spec.UpdateStrategy.MaxUnavailable = ptr.To(intstr.FromString("1%")) }},
		{"a pod that is not Ready uses the bound, and is free", "c", func(s *State) { s.Pods[2].Status.Conditions = nil }},
		{"a container that is yet to restart uses the bound", "", func(s *State) {
			s.Pods[3] = proxied("d", 3, 4, "p:2")
			s.Pods[3].Annotations[v1.InPlaceAnnotation] = `{"containers":{"proxy":{"id":"id-proxy","image":"p:1"}}}`
		}},
		{"the restarted container is free again", "b", func(s *State) {
			s.Pods[3] = proxied("d", 3, 4, "p:2")
			s.Pods[3].Annotations[v1.InPlaceAnnotation] = `{"containers":{"proxy":{"id":"id-before","image":"p:1"}}}`
		}},
		{"a pod with these images already is free", "a d", func(s *State) { s.Pods[0] = proxied("a", 2, 9, "p:2") }},
		{"partition", "", func(s *State) { s.Sidecar.Spec.UpdateStrategy.Partition = 4 }},
		{"partition of less", "d", func(s *State) { s.Sidecar.Spec.UpdateStrategy.Partition = 3 }},
		{"paused", "", func(s *State) { s.Sidecar.Spec.UpdateStrategy.Paused = true }},
		{"OnRecreate", "", func(s *State) { s.Sidecar.Spec.UpdateStrategy.Type = v1.UpdateOnRecreate }},
		{"more than images differs", "b", func(s *State) { s.Pods[3].Annotations[v1.SidecarsAnnotation] = "mesh=1/2/0/1" }},
		{"later than the injected generation, after a restore", "b", func(s *State) { s.Pods[3].Annotations[v1.SidecarsAnnotation] = "mesh=4/2/0/1" }},
		{"a container was not injected", "b", func(s *State) { s.Pods[3].Spec.InitContainers = nil }},
		{"terminating", "b", func(s *State) { s.Pods[3].DeletionTimestamp = &metav1.Time{Time: now} }},
		{"of an earlier Sidecar", "", func(s *State) { s.Sidecar.CreationTimestamp = metav1.NewTime(now) }},
		{"a generation without a dry run", "", func(s *State) { s.Sidecar.Spec.Env = []corev1.EnvVar{{Name: "A"}} }},
	} {
		s := State{Now: now, Sidecar: proxies(3, 2, "p:2"), Pods: ready()}
		tt.change(&s)
		if got := updated(s); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// One write has the images, the generation and the containers that restart. The replicas of
// a Pod2 are left to its sync.
func TestInPlace(t *testing.T) {
	s := State{Now: now, Sidecar: proxies(3, 2, "p:2"), Pods: []*corev1.Pod{proxied("a", 2, 2, "p:1")}}
	p := Diff(s)
	same(t, strings.Split(p.String(), "\nstatus")[0], "update a in place (uid uid): Sidecar mesh: image of logs, proxy")
	u := p.InPlace[0]
	same(t, fmt.Sprint(u.ResourceVersion, " ", u.Images, u.InitImages, u.Labels, " ", u.Sidecars, " ", u.Annotation),
		`7 map[logs:p:2] map[proxy:p:2] map[] a=1/0/0/0,mesh=3/2/0/1,z=3/0/0/0 {"containers":{"logs":{"id":"id-logs","image":"p:1"},"proxy":{"id":"id-proxy","image":"p:1"}}}`)

	s.Pods = append(s.Pods, proxied("web-0", 2, 3, "p:1"))
	s.Pods[1].OwnerReferences = []metav1.OwnerReference{{APIVersion: "samplecrd.k8s.io/v1", Kind: "Pod2", Name: "web", Controller: ptr.To(true)}}
	same(t, strings.Split(Diff(s).String(), "\nstatus")[0], "update replicas of Pod2 web")
}

// The condition Updated stays until an update succeeds or none is needed. An event reports
// a failure again only if its message has changed.
func TestFailedUpdates(t *testing.T) {
	s := State{Now: now, Sidecar: proxies(3, 2, "p:2"), Pods: []*corev1.Pod{proxied("a", 2, 2, "p:1")}}
	write := func(messages ...string) string {
		var failures []plan.Failure
		for _, message := range messages {
			failures = append(failures, plan.Failure{Reason: ReasonFailedUpdate, Message: message})
		}
		status, events := WithFailedUpdates(s, Diff(s).Status, failures)
		if status != nil {
			s.Sidecar.Status = *status
		}
		_, updated, _ := strings.Cut(plan.ConditionsText(s.Sidecar.Status.Conditions), "generation 3)")
		return fmt.Sprintf("%t%s %v", status != nil, updated, events)
	}
	same(t, write(), "true []")
	same(t, write("no registry"), "true Updated=False/FailedUpdate(no registry) [{Warning FailedUpdate no registry}]")
	same(t, write("no registry"), "false Updated=False/FailedUpdate(no registry) []")
	same(t, write(), "false Updated=False/FailedUpdate(no registry) []") // such as a timeout
	same(t, write("no tag"), "true Updated=False/FailedUpdate(no tag) [{Warning FailedUpdate no tag}]")

	written := s.Sidecar.Status
	for _, row := range []struct {
		name   string
		stays  bool
		change func()
	}{
		{"the update is tried again", false, func() {}},
		{"another pod is not available", true, func() { s.Pods = append(s.Pods, proxied("b", 3, 0, "p:2")) }},
		{"no pod waits for images", false, func() { s.Pods = []*corev1.Pod{proxied("a", 3, 2, "p:2")} }},
		{"paused", false, func() { s.Sidecar.Spec.UpdateStrategy.Paused = true }},
		{"another generation", false, func() { s.Sidecar.Spec.Containers[0].Image = "p:3" }},
	} {
		s = State{Now: now, Sidecar: proxies(3, 2, "p:2"), Pods: []*corev1.Pod{proxied("a", 2, 2, "p:1")}}
		s.Sidecar.Status, s.Sidecar.Spec = written, *s.Sidecar.Spec.DeepCopy()
		row.change()
		p := Diff(s)
		conditions := written.Conditions
		if p.Status != nil {
			conditions = p.Status.Conditions
		}
		if got := plan.ConditionsText(conditions); strings.Contains(got, "Updated=") != row.stays {
			t.Errorf("%s: %s", row.name, got)
		}
	}
}

// An image that is restored before the kubelet acts restarts no container.
func TestAnImageThatIsTakenBack(t *testing.T) {
	pod := proxied("a", 2, 1, "p:1")
	for generation, image := range []string{3: "p:2", 4: "p:1"} {
		if image == "" {
			continue
		}
		u := Updates(State{Now: now, Sidecar: proxies(int64(generation), 2, image), Pods: []*corev1.Pod{pod}})[0].On(pod)
		pod.Annotations[v1.InPlaceAnnotation], pod.Annotations[v1.SidecarsAnnotation] = u.Annotation, u.Sidecars
		pod.Spec.Containers[1].Image, pod.Spec.InitContainers[1].Image = image, image
	}
	if name := pod2.Restarting(pod); name != "" {
		t.Errorf("the wait for container %s never ends", name)
	}
}

// A generation with other images only keeps the first generation of those that can get it
// in place.
func TestInPlaceFrom(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*v1.SidecarSpec)
	}{
		{"image", "4 from 2", func(s *v1.SidecarSpec) { s.Containers[0].Image = "p:3" }},
		{"native sidecar", "4 from 2", func(s *v1.SidecarSpec) { s.InitContainers[1].Image = "p:3" }},
		{"init container", "4 from 4", func(s *v1.SidecarSpec) { s.InitContainers[0].Image = "setup:2" }},
		{"default of imagePullPolicy", "4 from 4", func(s *v1.SidecarSpec) { s.Containers[0].Image = "p:latest" }},
		{"argument", "4 from 4", func(s *v1.SidecarSpec) { s.Containers[0].Args = []string{"-v"} }},
		{"variable", "4 from 4", func(s *v1.SidecarSpec) { s.Env = []corev1.EnvVar{{Name: "A"}} }},
		{"selector", "4 from 2", func(s *v1.SidecarSpec) { s.Selector = map[string]string{"app": "db"} }},
		{"updateStrategy", "3 from 2", func(s *v1.SidecarSpec) { s.UpdateStrategy.Paused = true }},
		{"whenNotReady", "3 from 2", func(s *v1.SidecarSpec) { s.WhenNotReady = v1.SkipSidecar }},
	} {
		s := State{Now: now, Sidecar: proxies(3, 2, "p:2")}
		s.Sidecar.Generation, s.Sidecar.Spec = 4, *s.Sidecar.Spec.DeepCopy()
		tt.change(&s.Sidecar.Spec)
		p := Diff(s)
		if got := fmt.Sprintf("%d from %d", p.Status.Injected.Generation, p.Status.Injected.InPlaceFrom); got != tt.want || (p.Probe == nil) != (tt.want[0] == '3') {
			t.Errorf("%s: got %s, want %s; dry run: %t", tt.name, got, tt.want, p.Probe != nil)
		}
	}
}

// The updates of two syncs, with views of different ages, together stay within
// maxUnavailable.
func TestMaxUnavailableFromOlderViews(t *testing.T) {
	chance.ForSeeds(t, 300, func(t *testing.T, dice *rand.Rand) {
		s := State{Now: now, Sidecar: proxies(3, 2, "p:2")}
		s.Sidecar.Spec.UpdateStrategy.MaxUnavailable = ptr.To(intstr.FromInt(1 + dice.IntN(3)))
		for i := range 2 + dice.IntN(6) {
			s.Pods = append(s.Pods, proxied(fmt.Sprint("p", i), 2, dice.IntN(4), "p:1"))
		}
		older := map[string]bool{}
		for _, u := range Updates(s) {
			older[u.Pod.Name] = pod2.Available(u.Pod)
		}
		for _, pod := range s.Pods { // become Ready after the older view
			if pod2.Available(pod) || dice.IntN(2) == 0 {
				continue
			}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
		}
		taken := 0
		for _, u := range Updates(s) {
			if pod2.Available(u.Pod) {
				older[u.Pod.Name] = true
			}
		}
		unavailable := 0
		for _, pod := range s.Pods {
			if older[pod.Name] {
				taken++
			} else if !pod2.Available(pod) {
				unavailable++
			}
		}
		if bound := s.Sidecar.Spec.UpdateStrategy.MaxUnavailable.IntValue(); taken > max(bound-unavailable, 0) {
			t.Fatalf("%d available pods are taken, %d others are not available, and the bound is %d", taken, unavailable, bound)
		}
	})
}
