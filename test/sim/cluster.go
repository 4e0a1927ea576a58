package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/apiserver"
)

// Cluster is an API server, the cluster parts around it, and the processes that use it
// under the director. With a director, create it and use it in one synctest bubble. Without
// a director, it also works outside of one.
type Cluster struct {
	*apiserver.Server

	begin     time.Time
	processes map[string]*Process
	pending   []*step // requests
	// Signals that there may be work.
	toDirector, toCluster chan struct{}
	asked                 map[string]bool // the kinds of requests of processes
	writers               map[int]*view   // view of the sync that wrote a resourceVersion

	monitors []Monitor
	faults   []string
}

// NewCluster returns a cluster without objects. With a director, requests of processes are
// executed one at a time, when nothing else in the bubble can run.
func NewCluster() *Cluster {
	s := &Cluster{
		Server: apiserver.NewServer(), begin: time.Now(), processes: map[string]*Process{}, asked: map[string]bool{}, writers: map[int]*view{},
		toDirector: make(chan struct{}, 1), toCluster: make(chan struct{}, 1),
	}
	s.Unserve(apiserver.ResourceNamed("servicecidrs")) // as before Kubernetes 1.33
	s.OnWrite, s.OnChange, s.ByHand = s.requested, s.changed, s.watches
	return s
}

// watches makes the director deliver the events that processes watch.
func (s *Cluster) watches(who string) (byHand bool, at int) {
	p := s.processes[who]
	if p == nil {
		return false, 0
	}
	s.wake()
	return true, p.StartAt
}

func (s *Cluster) requested(r apiserver.Request) {
	for _, m := range s.monitors {
		s.fault(m.Request(s, r))
	}
}

func (s *Cluster) changed(c apiserver.Change) {
	public := Change{By: c.By, Resource: c.Key.Resource, New: c.New.Object}
	if c.Old != nil {
		public.Old = c.Old.Object
	}
	if c.Removed {
		public.New = nil
	}
	for _, m := range s.monitors {
		s.fault(m.Changed(s, public))
	}
	s.wake()
	if !apiserver.Apart[c.Key.Resource] {
		signal(s.toCluster)
	}
}

// Monitor checks every write request, and every change of the store. It returns a fault, ""
// for none.
type Monitor interface {
	Request(s *Cluster, r apiserver.Request) string
	Changed(s *Cluster, c Change) string
}

// Change is a change of a stored object. Old or New may be nil.
type Change struct {
	By, Resource string
	Old, New     apiserver.Object
}

// Watch shows a monitor all existing objects, and then all changes.
func (s *Cluster) Watch(m Monitor) {
	s.Lock()
	defer s.Unlock()
	for _, r := range apiserver.Resources {
		for _, v := range s.All(r, "") {
			s.fault(m.Changed(s, Change{Resource: r.Resource, Old: v.Object, New: v.Object}))
		}
	}
	s.monitors = append(s.monitors, m)
}

// Faults returns the faults that monitors found.
func (s *Cluster) Faults() []string {
	s.Lock()
	defer s.Unlock()
	return slices.Clone(s.faults)
}

func (s *Cluster) fault(text string) {
	if text != "" {
		s.Note("WRONG: %s", text)
		s.faults = append(s.faults, text)
	}
}

// Asked returns the kinds of requests that processes made, sorted.
func (s *Cluster) Asked() []string {
	s.Lock()
	defer s.Unlock()
	return slices.Sorted(maps.Keys(s.asked))
}

// Admit adds a rule; withdraw removes it.
func (s *Cluster) Admit(r apiserver.Rule) (withdraw func()) {
	end := s.Server.Admit(r)
	return func() {
		end()
		signal(s.toCluster) // a controller of the cluster may have been refused a pod
	}
}

// pace is the reaction time of each part of the cluster.
const pace = 500 * time.Millisecond

// RunCluster runs scheduler, kubelet, garbage collector, storage, and the controllers of
// CronJobs, Jobs and StatefulSets, until stop is closed.
func (s *Cluster) RunCluster(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-s.toCluster:
			time.Sleep(pace)
		case <-timer.C:
		}
		if wait := s.clusterStep(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// clusterStep lets every part act once. It returns the time after which a part must act
// again without an event; 0 means never.
func (s *Cluster) clusterStep() time.Duration {
	s.Lock()
	defer s.Unlock()
	s.collectGarbage()
	wait := time.Duration(0)
	for _, pod := range apiserver.List[*corev1.Pod](s.Server, "pods") {
		wait = max(wait, s.stepPod(pod))
	}
	s.stepClaims()
	s.stepStatefulSets()
	s.stepJobs()
	s.endRuns()
	if due := s.stepCronJobs(); wait == 0 || due > 0 && due < wait {
		wait = due
	}
	return wait
}

// stepPod is one step of scheduler and kubelet:
//
//	deleted, on a node             is removed
//	gated, or terminated           nothing
//	not on a node                  gets a node, once its PVCs are bound
//	pending                        runs: its containers are ready, unless an image is bad
//	runs, an image changed         its container is replaced, and ready
//	runs, other resources          gets them
//	runs, belongs to a Job         succeeds, 20 s later if its image is slow
//
// It returns the time after which the pod needs another step without an event; 0 means
// never.
func (s *Cluster) stepPod(pod *corev1.Pod) time.Duration {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil:
		if apiserver.Grace(pod) > 0 {
			apiserver.Edit(s.Server, "kubelet", pod, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
		}
	case over || len(pod.Spec.SchedulingGates) > 0:
	case pod.Spec.NodeName == "" && !s.hasClaims(pod):
	case pod.Spec.NodeName == "":
		apiserver.Edit(s.Server, "scheduler", pod, func(p *corev1.Pod) {
			p.Spec.NodeName = "node-0"
			setCondition(p, corev1.PodScheduled, "")
		})
	default:
		next := pod.DeepCopy()
		s.runContainers(next)
		if ref := metav1.GetControllerOf(pod); ref != nil && ref.Kind == "Job" && pod.Status.Phase == corev1.PodRunning {
			started := pod.Status.ContainerStatuses[0].State.Running.StartedAt
			if left := 20*time.Second - time.Since(started.Time); left > 0 && pod.Spec.Containers[0].Image == "slow" {
				return left
			}
			next.Status.Phase = corev1.PodSucceeded
		}
		s.Store("kubelet", apiserver.ResourceNamed("pods"), pod, next)
	}
	return 0
}

func (s *Cluster) runContainers(pod *corev1.Pod) {
	bad := ""
	for _, c := range pod.Spec.Containers {
		i := slices.IndexFunc(pod.Status.ContainerStatuses, func(cs corev1.ContainerStatus) bool { return cs.Name == c.Name })
		if i < 0 {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name})
			i = len(pod.Status.ContainerStatuses) - 1
		}
		status := &pod.Status.ContainerStatuses[i]
		status.Resources = c.Resources.DeepCopy()
		switch {
		case strings.HasPrefix(c.Image, "bad"):
			bad = c.Name
			status.Ready, status.Started = false, ptr.To(false)
			status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
		case status.Image != c.Image || status.ContainerID == "":
			status.ContainerID = fmt.Sprintf("sim://%s/%s/%s", pod.UID, c.Name, c.Image)
			status.Image, status.Ready, status.Started = c.Image, true, ptr.To(true)
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: apiserver.Now()}}
		}
	}
	if bad == "" || pod.Status.Phase == corev1.PodRunning {
		pod.Status.Phase = corev1.PodRunning
	}
	reason := ""
	if bad != "" {
		reason = "ContainersNotReady"
	}
	setCondition(pod, corev1.PodReady, reason)
	pod.Status.ObservedGeneration = pod.Generation
}

// setCondition makes a condition true, or false for a reason.
func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, reason string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: apiserver.Now()}
	if reason != "" {
		c.Status, c.Reason = corev1.ConditionFalse, reason
	}
	for i, old := range pod.Status.Conditions {
		if old.Type == kind {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
