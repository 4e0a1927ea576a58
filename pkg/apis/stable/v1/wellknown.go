package v1

const (
	// WaitFinalizer is set by the user, and delays the deletion of a CronTab. The CronTab
	// stays until its CronJob and runs are gone, or belong to it no longer (--cascade=orphan).
	// Their pods must have terminated and returned their addresses.
	WaitFinalizer = "finalizer.stable.example.com"

	// CronTabLabel is the name of the CronTab, on the CronJob, its Jobs and their pods.
	CronTabLabel = "stable.example.com/crontab"
)

// Conditions of a CronTab.
const (
	// ConditionReady says that the CronJob matches the CronTab, and that no run waits for
	// something that its user must provide.
	ConditionReady = "Ready"
	// ConditionScheduled says that there will be a next run.
	ConditionScheduled = "Scheduled"
)
