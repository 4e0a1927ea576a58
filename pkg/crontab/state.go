package crontab

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// State is all that one decision about one CronTab is made from: one view, read
// from caches.
type State struct {
	Now time.Time
	// CronTab is never nil; it may be terminating. A field without a value counts
	// as its default.
	CronTab *v1.CronTab
	// Zone is that of spec.timeZone, UTC without one; nil if there is none of that
	// name, and then ZoneProblem says so.
	Zone        *time.Location
	ZoneProblem string
	// CronJob of the CronTab's name, whoever's it is; nil: there is none.
	CronJob *batchv1.CronJob
	// CronJobZone is that of the CronJob's own timeZone, as Zone is.
	CronJobZone *time.Location
	// Jobs of the namespace that carry the label of the CronTab, in name order.
	Jobs []*batchv1.Job
	// Pods of the namespace that carry that label, in name order; for a CronTab that
	// is being deleted all that are managed, of which Blocks name some.
	Pods []*corev1.Pod
	// Networks are those of spec.networks that exist, in name order.
	Networks []*samplev1.Network
	// Blocks of the namespace, in name order: spec.networks may have named others
	// when the runs began. Only for a CronTab that is being deleted.
	Blocks []*samplev1.AddressBlock
	// NumbersHeld is how long times and numbers of the status are to stay as they are.
	NumbersHeld time.Duration
}
