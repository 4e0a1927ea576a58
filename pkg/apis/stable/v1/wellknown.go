package v1

const (
	// WaitFinalizer is set by the user, and means "wait": a CronTab that is being deleted
	// stays until its CronJob and runs are gone or not its own (--cascade=orphan),
	// their pods over and the addresses of the pods returned.
	WaitFinalizer = "finalizer.stable.example.com"

	// CronTabLabel is the name of the CronTab, on the CronJob, its Jobs and their pods.
	CronTabLabel = "stable.example.com/crontab"
)

// Conditions of a CronTab.
const (
	// ConditionReady says that the CronJob is as the CronTab wants it, and that no
	// run waits for what its user has to provide.
	ConditionReady = "Ready"
	// ConditionScheduled says that there will be a next run.
	ConditionScheduled = "Scheduled"
)
