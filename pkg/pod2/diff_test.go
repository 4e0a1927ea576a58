package pod2

import (
	"fmt"
	"strings"
	"testing"
)

type diffTest struct {
	name string
	spec string
	pods []string
	want string
}

func runDiff(t *testing.T, tests []diffTest, render func(State) string) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := render(state(t, tt.spec, tt.pods...)), block(tt.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestScale(t *testing.T) {
	runDiff(t, []diffTest{
		{"from nothing", "replicas=3", nil, `
			create web-0: missing
			create web-1: missing
			create web-2: missing`},
		{"the pods exist", "replicas=2", []string{"web-0", "web-1"}, ""},
		{"ordinals start elsewhere", "replicas=2 start=7", []string{"web-8"}, `create web-7: missing`},
		{"a new start, and no more pods than replicas", "replicas=2 start=1", []string{"web-0", "web-1"}, `
			delete web-0 (uid u-0): scaled down`},
		{"down, highest first", "replicas=1", []string{"web-0", "web-10", "web-2", "web-9 notready"}, `
			delete web-10 (uid u-10): scaled down
			delete web-9 (uid u-9): scaled down
			delete web-2 (uid u-2): scaled down`},
		{"down to none", "replicas=0", []string{"web-0"}, `delete web-0 (uid u-0): scaled down`},
		{"an owned pod without an ordinal", "replicas=1", []string{"web-0", "web-01", "web-x"}, `
			delete web-01 (uid u-01): scaled down
			delete web-x (uid u-x): scaled down`},
		{"down, also terminated or outdated ones", "replicas=0", []string{"web-0 failed", "web-1 old"}, `
			delete web-1 (uid u-1): scaled down
			delete web-0 (uid u-0): scaled down`},
		{"down, while enough replicas are available", "replicas=3",
			[]string{"web-0 notready", "web-1 notready", "web-2", "web-3", "web-4", "web-5 notready"}, `
			delete web-5 (uid u-5): scaled down
			delete web-4 (uid u-4): scaled down`},
		{"scaled-down and outdated pods share the budget", "replicas=3 max=2", []string{"web-0", "web-1 old", "web-2 old", "web-3"}, `
			delete web-3 (uid u-3): scaled down
			delete web-2 (uid u-2): template changed
			delete web-1 (uid u-1): template changed`},
		{"a Recreate has no bound", "replicas=2 recreate", []string{"web-0 notready", "web-1 notready", "web-2"}, `
			delete web-2 (uid u-2): scaled down`},
		{"deleted already", "replicas=0", []string{"web-0 terminating"}, "again in 30s"},
		{"a terminating pod keeps its ordinal, and is reported when it is overdue", "replicas=2", []string{"web-0 terminating", "web-1"}, "again in 30s"},
		{"a terminating pod with any name counts", "replicas=2", []string{"web-0", "web-5 terminating"}, "again in 30s"},
		{"lowest ordinals first when not all may be created", "replicas=3", []string{"web-7 terminating"}, `
			create web-0: missing
			create web-1: missing
			again in 30s`},
		{"being deleted itself", "replicas=3 going", []string{"web-0 old", "web-1 failed", "web-7"}, ""},
		{"with Networks", "replicas=2 networks=green,blue=10.1.0.10", nil, `
			create web-0 on blue=10.1.0.10, green: missing
			create web-1 on blue, green: missing`},
		{"a Network that does not exist stops nothing", "replicas=1 networks=blue exists=none", nil, `
			create web-0 on blue: missing`},
	}, actions)
}

func TestForeignPods(t *testing.T) {
	runDiff(t, []diffTest{
		{"a replica's name is taken", "replicas=3", []string{"web-1 of=ReplicaSet/x"}, `
			create web-0: missing
			create web-2: missing`},
		{"it does not count as an owned pod", "replicas=3", []string{"web-1 bare", "web-7 terminating"}, `
			create web-0: missing
			create web-2: missing
			again in 30s`},
		{"by a bare pod that failed long ago", "replicas=1", []string{"web-0 bare failed"}, ""},
		{"by an earlier Pod2 with this name", "replicas=2", []string{"web-0 earlier", "web-1 earlier terminating"}, ""},
		{"with the label and another name", "replicas=1", []string{"other of=ReplicaSet/x old", "web-0", "web-7 bare old"}, ""},
		{"outdated or not", "replicas=1", []string{"web-0 earlier old notready"}, ""},
	}, actions)
}

func TestUpdate(t *testing.T) {
	runDiff(t, []diffTest{
		{"one at a time, highest first", "replicas=3", []string{"web-0 old", "web-1 old", "web-2 old"}, `
			delete web-2 (uid u-2): template changed`},
		{"waits for the one before", "replicas=3", []string{"web-0 old", "web-1 old", "web-2 notready"}, ""},
		{"waits for the terminating one", "replicas=3", []string{"web-0 old", "web-1 old", "web-2 old terminating"}, "again in 30s"},
		{"continues", "replicas=3", []string{"web-0 old", "web-1 old", "web-2"}, `
			delete web-1 (uid u-1): template changed`},
		{"two at a time", "replicas=4 max=2", []string{"web-0 old", "web-1 old", "web-2 old", "web-3 old"}, `
			delete web-3 (uid u-3): template changed
			delete web-2 (uid u-2): template changed`},
		{"a percentage is rounded down", "replicas=3 max=67%", []string{"web-0 old", "web-1 old", "web-2 old"}, `
			delete web-2 (uid u-2): template changed
			delete web-1 (uid u-1): template changed`},
		{"none at a time means one", "replicas=3 max=0", []string{"web-0 old", "web-1 old", "web-2 old"}, `
			delete web-2 (uid u-2): template changed`},
		{"zero percent means one", "replicas=3 max=33%", []string{"web-0 old", "web-1 old", "web-2 old"}, `
			delete web-2 (uid u-2): template changed`},
		{"unavailable pods are deleted at once and never count", "replicas=4",
			[]string{"web-0 old", "web-1 old notready", "web-2 old failed", "web-3 old gated"}, `
			delete web-3 (uid u-3): template changed
			delete web-2 (uid u-2): template changed
			delete web-1 (uid u-1): template changed`},
		{"available pods stay while others are not", "replicas=3 max=1", []string{"web-0 old", "web-1 old", "web-2 old notready"}, `
			delete web-2 (uid u-2): template changed`},
		{"ready is not yet available", "replicas=2 minReady=10", []string{"web-0 old", "web-1 ready=4s"}, `
			again in 6s`},
		{"young replicas are not taken all at once", "replicas=3 minReady=60", []string{"web-0 old ready=5s", "web-1 old ready=5s", "web-2 old ready=5s"}, "again in 55s"},
		{"one of them counts as unavailable", "replicas=3 minReady=60", []string{"web-0 old", "web-1 old ready=5s", "web-2 old"}, "again in 55s"},
		{"and may be deleted if two may be unavailable", "replicas=3 minReady=60 max=2", []string{"web-0 old", "web-1 old", "web-2 old ready=5s"}, `
			delete web-2 (uid u-2): template changed
			delete web-1 (uid u-1): template changed
			again in 55s`},
		{"the others are not deleted for it", "replicas=3 minReady=60 max=2", []string{"web-0 old", "web-1 old ready=5s", "web-2 old"}, `
			delete web-2 (uid u-2): template changed
			again in 55s`},
		{"one that is not Ready is deleted at once", "replicas=3 minReady=60", []string{"web-0 old ready=5s", "web-1 old notready", "web-2 old ready=5s"}, `
			delete web-1 (uid u-1): template changed
			again in 55s`},
		{"young ones are scaled down", "replicas=1 minReady=60", []string{"web-0 ready=5s", "web-1 ready=5s"}, `
			delete web-1 (uid u-1): scaled down
			again in 55s`},
		{"pods to be scaled down are available too", "replicas=2", []string{"web-0 old", "web-1 notready", "web-2"}, `
			delete web-2 (uid u-2): scaled down`},
		{"another request", "replicas=1 networks=blue,green", []string{"web-0 request=blue"}, `
			delete web-0 (uid u-0): request for addresses changed from "blue" to "blue, green"`},
		{"an address changed for one replica", "replicas=2 networks=blue=10.0.0.8|10.0.0.9",
			[]string{"web-0", "web-1 request=blue=10.0.0.7"}, `
			delete web-1 (uid u-1): request for addresses changed from "blue=10.0.0.7" to "blue=10.0.0.9"`},
	}, actions)
}

func TestRecreate(t *testing.T) {
	runDiff(t, []diffTest{
		{"all at once", "replicas=3 recreate", []string{"web-0 old", "web-1 old", "web-2"}, `
			delete web-1 (uid u-1): template changed
			delete web-0 (uid u-0): template changed`},
		{"none is created before the last is gone", "replicas=3 recreate", []string{"web-0 old terminating"}, "again in 30s"},
		{"the last may have any name", "replicas=3 recreate", []string{"web-7 old terminating"}, "again in 30s"},
		{"then all are created", "replicas=2 recreate", nil, `
			create web-0: missing
			create web-1: missing`},
		{"a lost pod is replaced as usual", "replicas=2 recreate", []string{"web-1"}, `create web-0: missing`},
	}, actions)
}

func TestEvents(t *testing.T) {
	events := func(s State) string {
		var all []string
		for _, e := range Events(s, Diff(s)) {
			all = append(all, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}
		return strings.Join(all, "\n")
	}
	runDiff(t, []diffTest{
		{"a new Pod2", "replicas=2000", nil, `Normal SuccessfulCreate: created web-0, web-1 and 498 others: scaled up`},
		{"three are named", "replicas=3", nil, `Normal SuccessfulCreate: created web-0, web-1 and web-2: scaled up`},
		{"a replica was lost", "replicas=2 observed=1 current=spec", []string{"web-0"}, `Normal SuccessfulCreate: created web-1: missing`},
		{"down", "replicas=0 generation=2 observed=1", []string{"web-0", "web-1"}, `Normal SuccessfulDelete: deleted web-1 and web-0: scaled down`},
		{"one of each kind", "replicas=4 current=old", []string{"web-0 old", "web-1 old notready", "web-2 failed"}, `
			Normal SuccessfulDelete: deleted web-1: template changed
			Warning Replacing: deleted web-2 (terminated)
			Normal SuccessfulCreate: created web-3: update`},
		{"in place, or why not", "replicas=2 max=2 inplace", []string{"web-0 old", "web-1 old gated"}, `
			Normal Updating: updated web-0 in place: image of app
			Normal SuccessfulDelete: deleted web-1: template changed`},
		{"no change", "replicas=1", []string{"web-0"}, ""},
		{"pods are adopted", "replicas=4", []string{"web-0 orphan", "web-1 bare made", "web-2 orphan", "web-3"}, `Normal Adopting: adopted web-0, web-1 and web-2`},
		{"a problem for the user", "replicas=1", []string{"web-0 bare"}, `
			Warning NameTaken: pod web-0 already exists and has no controller, but it differs from the template in spec.containers[app].image (the pod has "other:1", the template "nginx:1"): delete it or change the template so that the replica can use the name (the controller notices within 30 seconds)`},
		{"no progress", "replicas=1 deadline=60 progress=60s", nil, `
			Normal SuccessfulCreate: created web-0: missing
			Warning ProgressDeadlineExceeded: no progress for 60 seconds: web-0 does not exist yet`},
		{"still none", "replicas=1 deadline=60 progress=60s progressing=ProgressDeadlineExceeded", nil, `Normal SuccessfulCreate: created web-0: missing`},
	}, events)
	t.Run("PVCs are deleted and resized", func(t *testing.T) {
		s := claimState(t, "replicas=1 whenScaled claims=2Gi", []string{"web-0"}, []string{"data-web-0", "data-web-7"})
		want := "Normal DeletedClaims: deleted PersistentVolumeClaims data-web-7: scaled down\nNormal ResizingClaims: requested larger PersistentVolumeClaims data-web-0: 2Gi instead of 1Gi"
		if got := events(s); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
