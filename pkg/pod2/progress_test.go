package pod2

import (
	"testing"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestProgress(t *testing.T) {
	progress := func(s State) string {
		status := look(s).statusWith(look(s).ready(nil))
		if status == nil {
			return "nothing new"
		}
		for _, c := range status.Conditions {
			if c.Type == v1.ConditionProgressing {
				since := "-"
				if status.LastProgressTime != nil {
					since = s.Now.Sub(status.LastProgressTime.Time).String()
				}
				return string(c.Status) + " " + c.Reason + " since " + since + ": " + c.Message
			}
		}
		return "no condition"
	}
	runDiff(t, []diffTest{
		{"begins", "replicas=1", nil, `True Progressing since 0s: web-0 does not exist yet`},
		{"continues", "replicas=2 deadline=60 progress=59s", nil, `True Progressing since 59s: web-0 does not exist yet; web-1 does not exist yet`},
		{"no progress", "replicas=1 deadline=60 progress=60s", nil, `False ProgressDeadlineExceeded since 1m0s: no progress for 60 seconds: web-0 does not exist yet`},
		{"progress", "replicas=2 deadline=60 progress=90s", []string{"web-0"}, `True Progressing since 0s: web-1 does not exist yet`},
		{"complete", "replicas=1 deadline=60 progress=90s", []string{"web-0"}, `True Complete since 1m30s: all replicas match the spec`},
		{"complete up to a partition", "replicas=2 partition=1 current=old", []string{"web-0 old", "web-1"}, `
			True Complete since -: 1 of 2 replicas are updated, as far as updateStrategy allows`},
		{"complete with OnDelete", "replicas=2 ondelete current=old", []string{"web-0 old", "web-1 old"}, `
			True Complete since -: 0 of 2 replicas are updated, as far as updateStrategy allows`},
		{"a partition of the whole", "replicas=1 partition=1", []string{"web-0"}, `True Complete since -: all replicas match the spec`},
		{"all are available, and others are to be deleted", "replicas=1", []string{"web-0", "web-1", "web-2 terminating"}, `
			True Progressing since 0s: web-2 is terminating; web-1 is being scaled down`},
		{"others do not terminate", "replicas=0 deadline=60 progress=60s", []string{"web-1 terminating"}, `
			False ProgressDeadlineExceeded since 1m0s: no progress for 60 seconds: web-1 is terminating`},
		{"paused", "replicas=1 paused deadline=60 progress=90s current=old", []string{"web-0 old"}, `Unknown Paused since 1m30s: updates are paused (spec.paused)`},
		{"paused time does not count", "replicas=1 deadline=60 progress=90s progressing=Paused current=old", []string{"web-0 old notready"}, `
			True Progressing since 0s: 0 of 1 replicas are updated`},
		{"the deadline starts again after completion", "replicas=1 deadline=60 progress=90s progressing=Complete", nil, `True Progressing since 0s: web-0 does not exist yet`},
		{"a pod that terminates and comes back does not count as progress", "replicas=1 deadline=60 progress=90s " + records(entry("web-0", "u-before", 3, time.Minute)), []string{"web-0 notready"}, `
			False ProgressDeadlineExceeded since 1m30s: no progress for 60 seconds: web-0 is not ready (Running)`},
		{"the deadline starts again with a new spec", "replicas=1 deadline=60 progress=90s generation=2", nil, `True Progressing since 0s: web-0 does not exist yet`},
	}, progress)
	if got := lines(state(t, "replicas=1 deadline=60 progress=20s"), "again"); got != "again in 40s" {
		t.Errorf("requeued after %s", got)
	}
}

func TestAvailable(t *testing.T) {
	runDiff(t, []diffTest{
		{"enough", "replicas=3", []string{"web-0", "web-1"}, `True MinimumReplicasAvailable: 2 replicas are available (at least 2 required)`},
		{"too few", "replicas=3", []string{"web-0", "web-1 notready"}, `
			False MinimumReplicasUnavailable: 1 replicas are available (at least 2 required); web-1 is not ready (Running); web-2 does not exist yet`},
		{"none is wanted", "replicas=0", nil, `True MinimumReplicasAvailable: 0 replicas are available (at least 0 required)`},
		{"a terminated one that still has the condition Ready", "replicas=1", []string{"web-0 ended=OOM"}, `
			False MinimumReplicasUnavailable: 0 replicas are available (at least 1 required); web-0 terminated (Failed: OOM)`},
		{"one of another owner", "replicas=1", []string{"web-0 of=ReplicaSet/x"}, `
			False MinimumReplicasUnavailable: 0 replicas are available (at least 1 required); pod web-0 is not controlled by this Pod2`},
		{"one that never ran", "replicas=1", []string{"web-0 notready"}, `
			False MinimumReplicasUnavailable: 0 replicas are available (at least 1 required); web-0 is not ready (Running)`},
		{"an update may take all, and took all", "replicas=2 max=100%", nil, `
			False MinimumReplicasUnavailable: 0 replicas are available (at least 1 required); web-0 does not exist yet; web-1 does not exist yet`},
		{"one of those that an update may take", "replicas=2 max=100%", []string{"web-1"}, `
			True MinimumReplicasAvailable: 1 replicas are available (at least 1 required)`},
	}, func(s State) string {
		counted := &v1.Pod2Status{}
		look(s).count(counted)
		c := look(s).enough(counted)
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	})
}
