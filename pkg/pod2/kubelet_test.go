package pod2

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

var restartForCPU = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}

// kubelet takes one step for a running pod, and reports whether its containers run. It
// stops a container whose image changed, and later starts the new one. It refuses, defers
// or grants resources. If that requires a restart, the status may show the new resources
// before.
func (w *world) kubelet(pod *corev1.Pod) (runs bool) {
	runs = true
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if i >= len(pod.Status.ContainerStatuses) {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name})
			start(pod, i)
		}
		s := &pod.Status.ContainerStatuses[i]
		w.grant(pod, c, s)
		switch restart := s.Image != c.Image || recordedInPlace(pod).Containers[c.Name].runs(pod, c.Name) || has(pod, corev1.PodResizeInProgress, ""); {
		case !s.Ready:
			start(pod, i)
		case restart && (w.prompt || chance.One(w.dice, 2)):
			s.Ready, runs = false, false
		}
	}
	return runs
}

func start(pod *corev1.Pod, i int) {
	created++
	s, c := &pod.Status.ContainerStatuses[i], pod.Spec.Containers[i]
	s.Image, s.ContainerID, s.Ready = c.Image, fmt.Sprint("id-", created), true
	if s.Resources == nil || has(pod, corev1.PodResizeInProgress, "") {
		s.Resources = c.Resources.DeepCopy()
	}
	forget(pod, corev1.PodResizeInProgress)
}

// grant grants resources, at once, later or never. An infeasible request stays so until
// it changes.
func (w *world) grant(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus) {
	if s.Resources == nil || has(pod, corev1.PodResizeInProgress, "") {
		return
	}
	if equality.Semantic.DeepEqual(*s.Resources, c.Resources) {
		forget(pod, corev1.PodResizePending)
		return
	}
	refused := attachment.Condition(pod, corev1.PodResizePending)
	if refused != nil && refused.Reason == corev1.PodReasonInfeasible && refused.ObservedGeneration == pod.Generation {
		return
	}
	reason := chance.Pick(w.dice, "", "", corev1.PodReasonDeferred, corev1.PodReasonDeferred, corev1.PodReasonInfeasible)
	forget(pod, corev1.PodResizePending)
	if reason != "" {
		setCondition(pod, corev1.PodResizePending, corev1.ConditionTrue, reason, "", w.Now)
		attachment.Condition(pod, corev1.PodResizePending).ObservedGeneration = pod.Generation
		return
	}
	if len(c.ResizePolicy) > 0 {
		setCondition(pod, corev1.PodResizeInProgress, corev1.ConditionTrue, "", "", w.Now)
	}
	if len(c.ResizePolicy) == 0 || chance.One(w.dice, 2) {
		s.Resources = c.Resources.DeepCopy()
	}
}

func has(pod *corev1.Pod, kind corev1.PodConditionType, reason string) bool {
	c := attachment.Condition(pod, kind)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == reason
}

func forget(pod *corev1.Pod, kind corev1.PodConditionType) {
	pod.Status.Conditions = slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool { return c.Type == kind })
}

// TestUpdatesKeepEnoughServing counts S5 by the containers that kubelets run, not by the
// controller's view. Only the controller deletes pods. In the end every pod matches the
// spec.
func TestUpdatesKeepEnoughServing(t *testing.T) {
	seen := map[string]int{}
	chance.ForSeeds(t, 100, func(t *testing.T, dice *rand.Rand) { updatesKeepEnoughServing(t, dice, seen) })
	t.Log(seen)
	for _, what := range []string{"restarted for resources", "deferred", "undone", "refused"} {
		if seen[what] < 5 {
			t.Errorf("%s only %d times: this world proves nothing", what, seen[what])
		}
	}
}

func updatesKeepEnoughServing(t *testing.T, dice *rand.Rand, seen map[string]int) {
	s := state(t, "replicas=3 inplace cpu=1")
	s.Pod2.Spec.Replicas = ptr.To(1 + dice.Int32N(5))
	s.Pod2.Spec.UpdateStrategy.RollingUpdate = &v1.Pod2RollingUpdate{
		MaxUnavailable: ptr.To(intstr.FromInt32(dice.Int32N(3))), MaxSurge: ptr.To(intstr.FromInt32(dice.Int32N(2))),
	}
	s.Pod2.Spec.PodManagementPolicy = chance.Pick(dice, v1.ParallelPodManagement, v1.OrderedReadyPodManagement)
	app := &s.Pod2.Spec.Template.Spec.Containers[0]
	app.ResizePolicy = chance.Pick(dice, nil, restartForCPU)
	w := &world{State: &s, dice: dice}
	w.converge(t)
	w.prompt = false
	for round := range 90 {
		if round < 60 && chance.One(dice, 6) {
			p := w.Pod2.DeepCopy()
			p.Generation++
			app := &p.Spec.Template.Spec.Containers[0]
			if chance.One(dice, 2) {
				app.Image = chance.Pick(dice, "nginx:2", "nginx:3") // of one imagePullPolicy
			}
			app.Resources.Requests[corev1.ResourceCPU] = chance.Pick(dice, resource.MustParse("1"), resource.MustParse("2"), resource.MustParse("3"))
			w.Pod2 = p
		}
		plan := Diff(*w.State)
		plan.Resize = slices.DeleteFunc(plan.Resize, func(r Resize) bool {
			if !chance.One(dice, 20) {
				return false
			}
			seen["refused"]++
			w.Refused = map[types.UID]Refusal{r.UID: {Resources: r.Resources, Message: "no"}}
			return true
		})
		w.Pod2 = w.Pod2.DeepCopy()
		if err := apply(w.State, plan); err != nil {
			t.Fatal(err)
		}
		w.enough(t, "a sync")
		for _, pod := range w.Pods {
			if has(pod, corev1.PodResizeInProgress, "") {
				seen["restarted for resources"]++
			}
			if has(pod, corev1.PodResizePending, corev1.PodReasonDeferred) {
				seen["deferred"]++
			}
			if recordedInPlace(pod).Resizing && pod.Labels[v1.PodTemplateHashLabel] == RevisionHash(w.Pod2) {
				seen["undone"]++
			}
		}
		w.step()
		w.enough(t, "a step of the nodes")
	}
	w.converge(t)
	for _, pod := range w.Pods {
		want := w.Pod2.Spec.Template.Spec.Containers[0]
		is, runs := pod.Spec.Containers[0], pod.Status.ContainerStatuses[0]
		if is.Image != want.Image || runs.Image != want.Image || !equality.Semantic.DeepEqual(is.Resources, want.Resources) || !equality.Semantic.DeepEqual(*runs.Resources, want.Resources) {
			t.Errorf("at rest %s must run %s with %v and runs %s with %v; the template has %s with %v",
				pod.Name, is.Image, is.Resources, runs.Image, runs.Resources, want.Image, want.Resources)
		}
	}
}

// enough fails the test if too few pods serve.
func (w *world) enough(t *testing.T, after string) {
	t.Helper()
	serving := 0
	for _, pod := range w.Pods {
		if isOurs(pod) && pod.DeletionTimestamp == nil && has(pod, corev1.PodReady, "") {
			serving++
		}
	}
	if serving < spec.LeastAvailable(w.Pod2) {
		t.Fatalf("S5: %d serve after %s\n%s", serving, after, describe(*w.State))
	}
}
