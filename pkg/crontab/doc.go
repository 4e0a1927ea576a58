// Package crontab decides what is to be written for a CronTab: one CronJob of
// its name, which Kubernetes' own controller runs. There is no scheduler here;
// schedules are parsed with the parser that Kubernetes uses, to tell a user what
// is wrong with one, and when the next run is due.
//
//	the CronTab                        its CronJob
//	has a schedule that parses         is created, and kept as the CronTab says
//	has one that does not              is not created; one that is there is suspended
//	goes, without the finalizer        goes with it, by the garbage collector
//	goes, with the finalizer "wait"    is deleted, in the foreground; the CronTab stays
//	                                   until nothing is left of its runs
//	goes, and keeps what it owns       stays with its runs, and is nobody's
//	(--cascade=orphan)
//
// A CronJob of somebody else is never touched. Neither are fields of ours that a
// CronTab has no word for, since a policy may set them, but for those that would
// hold every run silently or publish addresses that nobody bound.
package crontab
