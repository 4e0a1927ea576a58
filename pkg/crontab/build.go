package crontab

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
)

var cronTabKind = schema.GroupVersionKind{Group: v1.GroupName, Version: v1.GroupVersion.Version, Kind: "CronTab"}

// containerName is the name of the one container of every pod.
const containerName = "crontab"

func (v *view) newCronJob() *batchv1.CronJob {
	return v.overlay(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: v.cronTab.Namespace, Name: v.cronTab.Name}})
}

// overlay returns a copy of a CronJob with every field that a CronTab has. The other
// fields stay unchanged: the API server sets defaults in them, and policies may set them.
// Defaults are written explicitly, so a field that a user removes from the CronTab is
// reset. A schedule that does not parse suspends the CronJob and changes nothing else,
// because the API server would refuse the schedule.
func (v *view) overlay(current *batchv1.CronJob) *batchv1.CronJob {
	cronJob := current.DeepCopy()
	spec, want := &cronJob.Spec, v.cronTab.Spec
	if !metav1.IsControlledBy(cronJob, v.cronTab) {
		cronJob.OwnerReferences = append(cronJob.OwnerReferences, *metav1.NewControllerRef(v.cronTab, cronTabKind))
	}
	if v.problem != nil {
		spec.Suspend = ptr.To(true)
		return cronJob
	}
	cronJob.Labels = v.labeled(cronJob.Labels)
	spec.Schedule = want.CronSpec
	spec.TimeZone = want.TimeZone
	spec.Suspend = ptr.To(ptr.Deref(want.Suspend, false))
	spec.ConcurrencyPolicy = v.concurrencyPolicy()
	spec.StartingDeadlineSeconds = want.StartingDeadlineSeconds
	spec.SuccessfulJobsHistoryLimit = ptr.To(ptr.Deref(want.SuccessfulJobsHistoryLimit, 3))
	spec.FailedJobsHistoryLimit = ptr.To(ptr.Deref(want.FailedJobsHistoryLimit, 1))

	spec.JobTemplate.Labels = v.labeled(spec.JobTemplate.Labels)
	job := &spec.JobTemplate.Spec
	job.Parallelism = ptr.To(ptr.Deref(want.Replicas, 1))
	job.Completions = ptr.To(ptr.Deref(want.Completions, *job.Parallelism))
	job.BackoffLimit = ptr.To(ptr.Deref(want.BackoffLimit, 6))
	job.ActiveDeadlineSeconds = want.ActiveDeadlineSeconds
	if ptr.Deref(job.Suspend, false) { // every run would wait, and nothing would report it
		job.Suspend = nil
	}
	v.overlayPod(&job.Template)
	return cronJob
}

func (v *view) concurrencyPolicy() batchv1.ConcurrencyPolicy {
	switch want := v.cronTab.Spec; {
	case want.ConcurrencyPolicy != "":
		return want.ConcurrencyPolicy
	case len(want.Networks) > 0:
		return batchv1.ForbidConcurrent
	}
	return batchv1.AllowConcurrent
}

// overlayPod labels all pods, with or without Networks, so the controller watches them: a
// deletion with the finalizer waits for them. A container that fails restarts in its pod,
// which keeps its addresses meanwhile.
func (v *view) overlayPod(template *corev1.PodTemplateSpec) {
	template.Labels = v.labeled(template.Labels)
	template.Labels[samplev1.ManagedLabel] = "true"

	template.Annotations = maps.Clone(template.Annotations)
	delete(template.Annotations, samplev1.NetworksAnnotation)
	delete(template.Annotations, samplev1.AddressesAnnotation) // the controller publishes it on each pod
	ours := func(g corev1.PodSchedulingGate) bool { return g.Name == samplev1.AddressesGate }
	if request := v.request(); request != "" {
		if template.Annotations == nil {
			template.Annotations = map[string]string{}
		}
		template.Annotations[samplev1.NetworksAnnotation] = request
		if !slices.ContainsFunc(template.Spec.SchedulingGates, ours) {
			template.Spec.SchedulingGates = append(template.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: samplev1.AddressesGate})
		}
	} else {
		template.Spec.SchedulingGates = slices.DeleteFunc(template.Spec.SchedulingGates, ours)
	}

	template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	container := corev1.Container{Name: containerName}
	for _, c := range template.Spec.Containers {
		if c.Name == containerName {
			container = c
		}
	}
	want := v.cronTab.Spec
	if container.Image != want.Image {
		container.ImagePullPolicy = "" // the API server's default depends on the image
	}
	container.Image, container.Command, container.Args = want.Image, want.Command, want.Args
	container.Env = defaulted(want.Env)
	template.Spec.Containers = []corev1.Container{container}
}

func (v *view) request() string {
	requests := make([]attachment.Request, 0, len(v.cronTab.Spec.Networks))
	for _, n := range v.cronTab.Spec.Networks {
		requests = append(requests, attachment.Request{Network: n.Name, Interface: n.Interface})
	}
	return attachment.FormatRequests(requests)
}

func (v *view) labeled(labels map[string]string) map[string]string {
	return plan.Overlaid(labels, map[string]string{v1.CronTabLabel: v.cronTab.Name})
}

// defaulted returns a copy with the defaults that the API server sets in a CronJob and
// not in a CronTab. Without them the two would always differ.
func defaulted(env []corev1.EnvVar) []corev1.EnvVar {
	filled := make([]corev1.EnvVar, 0, len(env))
	for _, e := range env {
		e = *e.DeepCopy()
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.APIVersion == "" {
			e.ValueFrom.FieldRef.APIVersion = "v1"
		}
		filled = append(filled, e)
	}
	return filled
}

// difference names the fields of a CronJob that differ, "" if none does.
func difference(is, want *batchv1.CronJob) string {
	isJob, wantJob := is.Spec.JobTemplate, want.Spec.JobTemplate
	var differ plan.Differences
	differ.Compare("owner reference", is.OwnerReferences, want.OwnerReferences)
	differ.Compare("schedule", is.Spec.Schedule, want.Spec.Schedule)
	differ.Compare("timeZone", is.Spec.TimeZone, want.Spec.TimeZone)
	differ.Compare("suspend", is.Spec.Suspend, want.Spec.Suspend)
	differ.Compare("concurrencyPolicy", is.Spec.ConcurrencyPolicy, want.Spec.ConcurrencyPolicy)
	differ.Compare("startingDeadlineSeconds", is.Spec.StartingDeadlineSeconds, want.Spec.StartingDeadlineSeconds)
	differ.Compare("successfulJobsHistoryLimit", is.Spec.SuccessfulJobsHistoryLimit, want.Spec.SuccessfulJobsHistoryLimit)
	differ.Compare("failedJobsHistoryLimit", is.Spec.FailedJobsHistoryLimit, want.Spec.FailedJobsHistoryLimit)
	differ.Compare("parallelism", isJob.Spec.Parallelism, wantJob.Spec.Parallelism)
	differ.Compare("completions", isJob.Spec.Completions, wantJob.Spec.Completions)
	differ.Compare("backoffLimit", isJob.Spec.BackoffLimit, wantJob.Spec.BackoffLimit)
	differ.Compare("activeDeadlineSeconds", isJob.Spec.ActiveDeadlineSeconds, wantJob.Spec.ActiveDeadlineSeconds)
	differ.Compare("jobTemplate.spec.suspend", isJob.Spec.Suspend, wantJob.Spec.Suspend)
	differ.Compare("labels", [2]any{is.Labels, isJob.Labels}, [2]any{want.Labels, wantJob.Labels})
	differ.Compare("pod template", isJob.Spec.Template, wantJob.Spec.Template)
	return differ.String()
}
