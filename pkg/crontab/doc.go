// Package crontab decides which objects to write for a CronTab: one CronJob with the same
// name, which Kubernetes' own controller runs. This package has no scheduler. It parses
// schedules with the parser that Kubernetes uses, to report errors in them and the time
// of the next run.
//
//	the CronTab                        its CronJob
//	has a schedule that parses         is created, and kept as the CronTab says
//	has one that does not              is not created; an existing one is suspended
//	is deleted, without the finalizer  is deleted too, by the garbage collector
//	is deleted, with the finalizer     is deleted, in the foreground; the CronTab stays
//	"wait"                             until nothing is left of its runs
//	is deleted, and keeps its objects  stays with its runs, without an owner
//	(--cascade=orphan)
//
// The controller never touches a CronJob of another owner. It also leaves fields alone
// that a CronTab does not have, because a policy may set them. The exceptions are fields
// that would silently block every run, or publish addresses that nobody bound.
package crontab
