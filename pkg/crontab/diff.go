package crontab

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/plan"
)

// Reasons of events on a CronTab; events about problems have the reasons of the
// conditions.
const (
	EventCreated = "Created"
	EventUpdated = "Updated"
	EventDeleted = "Deleted"
)

// Diff plans the writes for one CronTab. It cannot fail: if something is impossible, a
// condition says so.
func Diff(s State) Plan {
	v := look(s)
	var p Plan
	switch waits := slices.Contains(s.CronTab.Finalizers, v1.WaitFinalizer); {
	case s.CronTab.DeletionTimestamp != nil && !waits:
		return Plan{}
	case s.CronTab.DeletionTimestamp != nil:
		p.Delete = v.deletion()
		p.Release = p.Delete == nil && Waits(s) == ""
	case s.CronJob == nil && v.problem == nil:
		p.Create = v.newCronJob()
	case v.ours() && s.CronJob.DeletionTimestamp == nil:
		p.Update = v.update()
	}
	if !p.Release {
		p.Status = v.status()
	}
	p.Events = v.events(p)
	if at := v.nextRun(); !at.IsZero() {
		p.RequeueAfter = at.Sub(s.Now)
	}
	if s.NumbersHeld > 0 && p.statusMayWait(s) {
		p.Gathers, p.Status, p.RequeueAfter = true, nil, plan.Soonest(p.RequeueAfter, s.NumbersHeld)
	}
	return p
}

// Overruled returns the fields that the API server did not keep as written, "" if there
// are none. The CronJob of the State is the answer to a write. Only admission can have
// changed these fields.
func Overruled(s State) string {
	v := look(s)
	if u := v.update(); v.ours() && s.CronJob.DeletionTimestamp == nil && u != nil {
		return u.Reason
	}
	return ""
}

func (v *view) deletion() *plan.Deletion {
	if !v.ours() || v.CronJob.DeletionTimestamp != nil || v.orphans() {
		return nil
	}
	return ptr.To(plan.Delete(v.CronJob, "the CronTab is being deleted"))
}

func (v *view) update() *plan.Update[*batchv1.CronJob] {
	want := v.overlay(v.CronJob)
	if reason := difference(v.CronJob, want); reason != "" {
		return &plan.Update[*batchv1.CronJob]{Was: v.CronJob, Object: want, Reason: reason}
	}
	return nil
}

// Waits returns the object that a CronTab being deleted still waits for, "" if there is
// none. In a State that was read live in the order of these rows, "" is final, because
// only the row before creates each of them:
//
//	the CronJob
//	its Jobs, also those started by hand
//	their pods, until each has terminated
//	addresses bound to such a pod: they are about to be released
//
// If a pod and its Job are gone, only the name of the Job tells which CronTab used the
// address: it begins with the CronTab's name and a dash. This does not cover a Job that a
// user started under another name. If another Job has such a name, the CronTab waits for
// it too.
func Waits(s State) string {
	v := look(s)
	if v.ours() {
		return "CronJob " + s.CronJob.Name
	}
	for _, job := range v.runs {
		return "Job " + job.Name
	}
	for _, pod := range v.pods {
		if !attachment.Over(pod) {
			return "pod " + pod.Name
		}
	}
	byUID := map[types.UID]*corev1.Pod{}
	for _, pod := range s.Pods {
		byUID[pod.UID] = pod
	}
	for _, block := range s.Blocks {
		for _, e := range block.Spec.Entries {
			pod, there := byUID[e.PodUID]
			if e.State == samplev1.AddressBound && (there && v.isOfRun(pod) || !there && v.isNamedAsRun(e.Owner)) {
				return fmt.Sprintf("address %s of Network %s, which pod %s held", e.Address, block.Spec.Network, e.Pod)
			}
		}
	}
	return ""
}

func (v *view) events(p Plan) []plan.Event {
	var events []plan.Event
	normal := func(reason, format string, args ...any) {
		events = append(events, plan.Normal(reason, fmt.Sprintf(format, args...)))
	}
	switch {
	case p.Delete != nil:
		normal(EventDeleted, "deleted CronJob %s and its runs", p.Delete.Name)
	case p.Create != nil:
		normal(EventCreated, "created CronJob %s", p.Create.Name)
	case p.Update != nil:
		normal(EventUpdated, "updated CronJob %s to match this CronTab: %s", v.CronJob.Name, p.Update.Reason)
	}
	return append(events, v.told(p.Status)...)
}

// told reports each problem that the user must fix, once, when it becomes the first
// problem.
func (v *view) told(status *v1.CronTabStatus) []plan.Event {
	if status == nil {
		return nil
	}
	is := meta.FindStatusCondition(status.Conditions, v1.ConditionReady)
	if v.failure == nil && !mendable[is.Reason] || plan.Said(v.cronTab.Status.Conditions, is) {
		return nil
	}
	return []plan.Event{plan.Warning(is.Reason, is.Message)}
}
