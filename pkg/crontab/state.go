package crontab

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	samplev1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	v1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// State is the only input of one decision about one CronTab: one view, read from caches.
type State struct {
	Now time.Time
	// CronTab is never nil; it may be terminating. A field without a value counts as its
	// default.
	CronTab *v1.CronTab
	// Zone is the time zone of spec.timeZone, UTC by default. It is nil if the name is
	// unknown, and then ZoneProblem says so.
	Zone        *time.Location
	ZoneProblem string
	// CronJob with the CronTab's name, of any owner; nil if there is none.
	CronJob *batchv1.CronJob
	// CronJobZone is the time zone of the CronJob's own timeZone, like Zone.
	CronJobZone *time.Location
	// Jobs of the namespace that have the label of the CronTab, in name order.
	Jobs []*batchv1.Job
	// Pods of the namespace that have that label, in name order. For a CronTab that is
	// being deleted, those to which Blocks bind addresses are among them.
	Pods []*corev1.Pod
	// Networks of spec.networks that exist, in name order.
	Networks []*samplev1.Network
	// Blocks of the namespace, in name order, only for a CronTab that is being deleted.
	// They are of all Networks, because spec.networks may have had others when the runs
	// started.
	Blocks []*samplev1.AddressBlock
	// NumbersHeld is how long times and numbers of the status stay unchanged.
	NumbersHeld time.Duration
}
