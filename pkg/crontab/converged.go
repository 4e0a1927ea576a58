package crontab

import (
	"fmt"
	"slices"

	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// Converged says "" when no write of ours is due, else the first that is. It is
// what "done" means, written apart from the way there:
//
//   - a CronTab that is being deleted wants nothing, but with the finalizer: that
//     its CronJob is going, if it is not to be kept, and the finalizer off once
//     nothing is left to wait for;
//   - a CronJob that is ours, or was and has no owner now, is as the CronTab says,
//     the owner reference included, and suspended if that says what cannot be;
//   - there is a CronJob, whoever's, unless the CronTab says what cannot be;
//   - the status says all this.
func Converged(s State) string {
	v := look(s)
	kept := v.ours() && s.CronJob.DeletionTimestamp == nil
	if s.CronTab.DeletionTimestamp != nil {
		switch {
		case !slices.Contains(s.CronTab.Finalizers, v1.WaitFinalizer):
			return ""
		case kept && !v.orphans():
			return fmt.Sprintf("CronJob %s is not being deleted", s.CronJob.Name)
		case Waits(s) == "":
			return "the finalizer waits for nothing"
		}
	} else if s.CronJob == nil && v.problem == nil {
		return "there is no CronJob"
	} else if kept {
		if reason := difference(s.CronJob, v.overlay(s.CronJob)); reason != "" {
			return "the CronJob differs in " + reason
		}
	}
	if status := v.status(); status != nil {
		return "the status would be: " + statusText(status)
	}
	return ""
}
