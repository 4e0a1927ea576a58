package spec

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// CronTabDone describes the remaining work for a CronTab.
//
//   - A CronJob with its name runs as the CronTab says. If that CronJob has another owner, or the
//     CronTab is impossible, the condition Ready is False. The CronTab's own CronJob is
//     suspended if the CronTab is impossible.
//   - If a CronTab with the finalizer is being deleted, its CronJob is deleted too, unless it is
//     orphaned. The CronTab keeps the finalizer while anything of its runs exists.
//   - The status is about the present spec.
func CronTabDone(c *Cluster, t *v1.CronTab) string {
	job := named(c.CronJobs, t.Name)
	ours := job != nil && metav1.IsControlledBy(job, t)
	goes := job == nil || job.DeletionTimestamp != nil
	ready := meta.FindStatusCondition(t.Status.Conditions, v1.ConditionReady)
	if t.DeletionTimestamp != nil {
		switch {
		case !slices.Contains(t.Finalizers, v1.WaitFinalizer):
		case ours && !goes && !slices.Contains(t.Finalizers, metav1.FinalizerOrphanDependents):
			return fmt.Sprintf("CronJob %s is not being deleted", job.Name)
		case !ours && len(c.Jobs)+len(c.Pods)+len(c.Blocks) == 0:
			return "the finalizer waits for nothing"
		}
		return ""
	}
	impossible := ready != nil && slices.Contains([]string{"InvalidSchedule", "InvalidTimeZone", "NeverDue"}, ready.Reason)
	orphan := job != nil && metav1.GetControllerOfNoCopy(job) == nil && job.Labels[v1.CronTabLabel] == t.Name
	switch {
	case ready == nil || t.Status.ObservedGeneration != t.Generation || ready.ObservedGeneration != t.Generation:
		return "the status is about an earlier spec"
	case ready.Status == metav1.ConditionTrue && (!ours || goes):
		return "the CronTab is Ready without a CronJob"
	case job == nil && !impossible:
		return "there is no CronJob"
	case goes:
		return ""
	case orphan:
		return fmt.Sprintf("CronJob %s has lost its owner", job.Name)
	case ours && impossible && !ptr.Deref(job.Spec.Suspend, false):
		return fmt.Sprintf("CronJob %s runs, and the CronTab is impossible", job.Name)
	case ours && t.Status.Active != int32(len(job.Status.Active)):
		return fmt.Sprintf("the status counts %d active runs, and there are %d", t.Status.Active, len(job.Status.Active))
	case ours && !impossible:
		return runsDiffer(t.Spec, job.Spec)
	}
	return ""
}

func runsDiffer(t v1.CronTabSpec, j batchv1.CronJobSpec) string {
	pod := j.JobTemplate.Spec.Template
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "crontab" })
	var networks []string
	for _, n := range t.Networks {
		networks = append(networks, n.Name)
	}
	asks := pod.Annotations[samplev1.NetworksAnnotation]
	switch {
	case j.Schedule != t.CronSpec || ptr.Deref(j.TimeZone, "") != ptr.Deref(t.TimeZone, ""):
		return "the CronJob runs at other times"
	case ptr.Deref(j.Suspend, false) != ptr.Deref(t.Suspend, false):
		return "only one of the CronJob and the CronTab is suspended"
	case i < 0 || len(pod.Spec.Containers) != 1 || pod.Spec.Containers[i].Image != t.Image:
		return "the CronJob runs another image"
	case ptr.Deref(j.JobTemplate.Spec.Parallelism, 0) != ptr.Deref(t.Replicas, 1):
		return "the CronJob runs another number of pods"
	case t.ConcurrencyPolicy != "" && j.ConcurrencyPolicy != t.ConcurrencyPolicy:
		return "the CronJob has another concurrencyPolicy"
	case slices.ContainsFunc(networks, func(n string) bool { return !strings.Contains(asks, n) }) || len(networks) == 0 && asks != "":
		return "the pods of the CronJob request other Networks"
	}
	return ""
}
