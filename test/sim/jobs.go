package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/apiserver"
)

// stepCronJobs starts the due Jobs, and returns the time until the next one.
func (s *Cluster) stepCronJobs() time.Duration {
	wait := time.Duration(0)
	for _, c := range apiserver.List[*batchv1.CronJob](s.Server, "cronjobs") {
		schedule, err := cron.ParseStandard(c.Spec.Schedule)
		if err != nil || c.DeletionTimestamp != nil || ptr.Deref(c.Spec.Suspend, false) {
			continue
		}
		last := c.CreationTimestamp.Time
		if c.Status.LastScheduleTime != nil {
			last = c.Status.LastScheduleTime.Time
		}
		due := schedule.Next(last.UTC())
		if left := time.Until(due); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		job := &batchv1.Job{ObjectMeta: *c.Spec.JobTemplate.ObjectMeta.DeepCopy(), Spec: *c.Spec.JobTemplate.Spec.DeepCopy()}
		job.Name = fmt.Sprintf("%s-%d", c.Name, due.Unix()/60)
		job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
		// If the name is taken, the Job of this time already exists.
		_, _ = s.Create("cronjob controller", apiserver.ResourceNamed("jobs"), c.Namespace, job)
		apiserver.Edit(s.Server, "cronjob controller", c, func(c *batchv1.CronJob) {
			c.Status.LastScheduleTime = ptr.To(metav1.NewTime(due))
			c.Status.Active = append(c.Status.Active, corev1.ObjectReference{Kind: "Job", Namespace: c.Namespace, Name: job.Name})
		})
		wait = pace
	}
	return wait
}

// endRuns removes completed and deleted Jobs from the active list of their CronJob.
func (s *Cluster) endRuns() {
	for _, c := range apiserver.List[*batchv1.CronJob](s.Server, "cronjobs") {
		next := c.DeepCopy()
		next.Status.Active = slices.DeleteFunc(next.Status.Active, func(ref corev1.ObjectReference) bool {
			job, exists := s.Get(apiserver.ResourceNamed("jobs"), c.Namespace, ref.Name).(*batchv1.Job)
			if exists && len(job.Status.Conditions) > 0 {
				next.Status.LastSuccessfulTime = ptr.To(job.Status.Conditions[0].LastTransitionTime)
			}
			return !exists || len(job.Status.Conditions) > 0
		})
		s.Store("cronjob controller", apiserver.ResourceNamed("cronjobs"), c, next)
	}
}

// stepJobs creates the pods of Jobs, all at once, and counts the succeeded ones.
func (s *Cluster) stepJobs() {
	pods := apiserver.List[*corev1.Pod](s.Server, "pods")
	for _, j := range apiserver.List[*batchv1.Job](s.Server, "jobs") {
		made, done := int32(0), int32(0)
		for _, pod := range pods {
			if metav1.IsControlledBy(pod, j) {
				made++
				if pod.Status.Phase == corev1.PodSucceeded {
					done++
				}
			}
		}
		wanted := max(ptr.Deref(j.Spec.Parallelism, 1), ptr.Deref(j.Spec.Completions, 1))
		for ; made < wanted && j.DeletionTimestamp == nil && done == 0; made++ {
			pod := &corev1.Pod{ObjectMeta: *j.Spec.Template.ObjectMeta.DeepCopy(), Spec: *j.Spec.Template.Spec.DeepCopy()}
			pod.Name = fmt.Sprintf("%s-%d", j.Name, made)
			pod.Labels = maps.Clone(pod.Labels)
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
			_, _ = s.Create("job controller", apiserver.ResourceNamed("pods"), j.Namespace, pod)
		}
		apiserver.Edit(s.Server, "job controller", j, func(j *batchv1.Job) {
			j.Status.Active, j.Status.Succeeded = made-done, done
			if done == wanted && len(j.Status.Conditions) == 0 {
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: apiserver.Now()}}
			}
		})
	}
}
