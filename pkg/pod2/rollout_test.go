package pod2

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestSurge(t *testing.T) {
	runDiff(t, []diffTest{
		{"created first", "replicas=3 surge=1 max=0", []string{"web-0 old", "web-1 old", "web-2 old"}, `create web-3: missing`},
		{"then one is deleted", "replicas=3 surge=1 max=0", []string{"web-0 old", "web-1 old", "web-2 old", "web-3"}, `
			delete web-2 (uid u-2): template changed`},
		{"not before it is available", "replicas=3 surge=1 max=0", []string{"web-0 old", "web-1 old", "web-2 old", "web-3 notready"}, ""},
		{"is kept until the last is available", "replicas=3 surge=1 max=0", []string{"web-0 notready", "web-1", "web-2", "web-3"}, ""},
		{"and is deleted last", "replicas=3 surge=1 max=0", []string{"web-0", "web-1", "web-2", "web-3"}, `delete web-3 (uid u-3): scaled down`},
		{"no more than there are stale ones", "replicas=3 surge=100%", []string{"web-0", "web-1", "web-2 old"}, `
			create web-3: missing
			delete web-2 (uid u-2): template changed`},
		{"a percentage is rounded up", "replicas=3 surge=34% max=0", []string{"web-0 old", "web-1 old", "web-2 old"}, `
			create web-3: missing
			create web-4: missing`},
		{"without both there is no update", "replicas=2 surge=0% max=49%", []string{"web-0 old", "web-1 old"}, `
			delete web-1 (uid u-1): template changed`},
		{"a scaled-down pod is in its place", "replicas=2 surge=1 max=0", []string{"web-0 old", "web-1 old", "web-2 old"}, `
			delete web-2 (uid u-2): scaled down`},
		{"another owner's pod is in its place", "replicas=2 surge=1 max=0", []string{"web-0 old", "web-1 old", "web-2 bare"}, ""},
		{"a terminated one is replaced as usual", "replicas=1 surge=1 max=0", []string{"web-0 old", "web-1 failed"}, `
			backoff {"web-1":{"uid":"u-1","failures":1,"since":"2026-01-02T15:04:05Z"}}
			delete web-1 (uid u-1): terminated (Failed)`},
		{"not without an update", "replicas=2 surge=2", []string{"web-0", "web-1"}, ""},
		{"counts a terminating pod", "replicas=2 surge=1", []string{"web-0", "web-7 terminating"}, `
			create web-1: missing
			again in 30s`},
		{"has the ordinals that follow", "replicas=2 surge=1 max=0 reserve=0,3 start=1", []string{"web-1 old", "web-2 old"}, `create web-4: missing`},
	}, func(s State) string { return sorted(actions(s)) })
}

// sorted puts creations before deletions, because a reader of these tests looks for them
// first.
func sorted(text string) string {
	var creations, others []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "create") {
			creations = append(creations, line)
		} else if line != "" {
			others = append(others, line)
		}
	}
	return strings.Join(append(creations, others...), "\n")
}

// made returns the revision of each creation.
func made(s State) string {
	var lines []string
	for _, c := range Diff(s).Create {
		pod := c.Pod()
		hash := strings.ReplaceAll(pod.Labels[v1.PodTemplateHashLabel], RevisionHash(s.Pod2), "HASH")
		lines = append(lines, pod.Name+" "+hash+" "+pod.Spec.Containers[0].Image)
	}
	for _, d := range Diff(s).Delete {
		lines = append(lines, "delete "+d.Name)
	}
	return strings.Join(lines, "\n")
}

func TestPartition(t *testing.T) {
	runDiff(t, []diffTest{
		{"only those after it are updated", "replicas=3 partition=2 current=old", []string{"web-0 old", "web-1 old", "web-2 old"}, `delete web-2`},
		{"not even those that are not ready", "replicas=3 partition=2 current=old", []string{"web-0 old notready", "web-1 old", "web-2"}, ""},
		{"one before it comes back unchanged", "replicas=3 partition=2 current=old", []string{"web-1 old"}, `
			web-0 old nginx:0
			web-2 HASH nginx:1`},
		{"above replicas", "replicas=2 partition=9 current=old", []string{"web-0 old"}, `web-1 old nginx:0`},
		{"counts places", "replicas=2 partition=1 start=5 reserve=6 current=old", []string{"web-5 old", "web-7 old"}, `delete web-7`},
		{"a first revision is for all", "replicas=2 partition=9", nil, `
			web-0 HASH nginx:1
			web-1 HASH nginx:1`},
		{"its revision is gone", "replicas=1 partition=1 current=lost", nil, `web-0 HASH nginx:1`},
	}, made)
}

func TestPaused(t *testing.T) {
	runDiff(t, []diffTest{
		{"nothing is updated", "replicas=2 paused current=old", []string{"web-0 old notready", "web-1 old"}, ""},
		{"each comes back unchanged", "replicas=4 paused current=old", []string{"web-1 old", "web-2"}, `
			web-0 old nginx:0
			web-3 HASH nginx:1`},
		{"the revision of a lost one is unknown", "replicas=3 paused current=old", []string{"web-0", "web-2"}, `web-1 old nginx:0`},
		{"it was not updated, if a later one was not", "replicas=3 paused current=old", []string{"web-0", "web-2 old"}, `web-1 old nginx:0`},
		{"the only one that was updated", "replicas=3 paused current=old", []string{"web-0 old", "web-1 old"}, `web-2 old nginx:0`},
		{"the last one that was updated", "replicas=3 paused current=old", []string{"web-0 old", "web-2"}, `web-1 old nginx:0`},
		{"the first one that was updated", "replicas=3 paused current=old", []string{"web-0 old", "web-1"}, `web-2 HASH nginx:1`},
		{"the last old one", "replicas=3 paused current=old", []string{"web-1", "web-2"}, `web-0 old nginx:0`},
		{"a Recreate, where all have the new one", "replicas=3 paused recreate current=old", []string{"web-0", "web-1"}, `web-2 old nginx:0`},
		{"the spec changed again: it had neither", "replicas=3 paused current=old", []string{"web-0 old", "web-1 label=" + v1.PodTemplateHashLabel + ":between"}, `web-2 old nginx:0`},
		{"scaling continues", "replicas=2 paused current=old", []string{"web-0 old", "web-4 old"}, `delete web-4`},
		{"a surge replica of any template stays", "replicas=2 paused surge=1 current=old", []string{"web-0 old", "web-1 old", "web-2 old"}, ""},
		{"a surge replica stays, and none is added", "replicas=2 paused surge=2 current=old", []string{"web-0 old", "web-1 old", "web-3"}, ""},
		{"a Recreate keeps to one revision", "replicas=3 paused recreate current=old", []string{"web-2 old"}, `
			web-0 old nginx:0
			web-1 old nginx:0`},
		{"a terminated pod is replaced", "replicas=1 paused current=old", []string{"web-0 old failed"}, `delete web-0`},
	}, made)
}

// A Sidecar updates a limited number of pods at once, so one without its images stops the others.
func TestSurgeReplicaGetsTheImagesOfSidecars(t *testing.T) {
	s := state(t, "replicas=2 paused surge=1 current=old", "web-0 old", "web-1 old", "web-2")
	pod := s.Pods[2]
	s.Sidecars = map[types.UID]SidecarUpdate{pod.UID: {Name: "mesh", Images: map[string]string{pod.Spec.Containers[0].Name: "mesh:2"}}}
	const want = "update web-2 in place (uid u-2): Sidecar mesh: image of app\n"
	if got := Diff(s).String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An autoscaler may scale to zero and back meanwhile.
func TestZeroReplicasUpdateNothingThatIsHeld(t *testing.T) {
	runDiff(t, []diffTest{
		{"by nothing", "replicas=0 current=old", nil, "web-HASH, True Complete"},
		{"by a pause", "replicas=0 current=old paused", nil, "web-old, Unknown Paused"},
		{"by a partition", "replicas=0 current=old partition=3", nil, "web-old, True Complete"},
	}, func(s State) string {
		status := Diff(s).Status
		c := meta.FindStatusCondition(status.Conditions, v1.ConditionProgressing)
		return strings.ReplaceAll(status.CurrentRevision, RevisionHash(s.Pod2), "HASH") + ", " + string(c.Status) + " " + c.Reason
	})
}

func TestOnDelete(t *testing.T) {
	runDiff(t, []diffTest{
		{"waits for a deletion by the user", "replicas=2 ondelete current=old", []string{"web-0 old notready", "web-1 old"}, ""},
		{"then creates the new one", "replicas=2 ondelete current=old", []string{"web-0 old"}, `web-1 HASH nginx:1`},
	}, made)
}

func TestOrderedReady(t *testing.T) {
	runDiff(t, []diffTest{
		{"one is created", "replicas=3 ordered", nil, `create web-0: missing`},
		{"waits until it is available", "replicas=3 ordered", []string{"web-0 notready"}, ""},
		{"then the next", "replicas=3 ordered", []string{"web-0", "web-2"}, `create web-1: missing`},
		{"none after one that stays missing", "replicas=3 ordered", []string{"web-0 bare", "web-2"}, ""},
		{"one is deleted", "replicas=1 ordered", []string{"web-0", "web-1", "web-2"}, `delete web-2 (uid u-2): scaled down`},
		{"waits until it is gone", "replicas=1 ordered", []string{"web-0", "web-1", "web-2 terminating"}, "again in 30s"},
		{"a broken update is repaired", "replicas=3 ordered", []string{"web-0 old", "web-1 old", "web-2 old notready"}, `
			delete web-2 (uid u-2): template changed`},
	}, actions)
}

func TestReserveOrdinals(t *testing.T) {
	runDiff(t, []diffTest{
		{"are left out", "replicas=3 reserve=1,7", []string{"web-0", "web-1", "web-2"}, `
			delete web-1 (uid u-1): scaled down`},
		{"and others take their place", "replicas=3 reserve=1,7", []string{"web-0", "web-2"}, `create web-3: missing`},
		{"and come back", "replicas=3", []string{"web-0", "web-2", "web-3"}, `
			delete web-3 (uid u-3): scaled down`},
		{"addresses stay with their ordinals", "replicas=2 reserve=0 networks=blue=10.0.0.8|10.0.0.9", nil, `
			create web-1 on blue=10.0.0.9: missing
			create web-2 on blue: missing`},
	}, actions)
}

func revisionLines(s State) string {
	text := lines(s, "create revision", "change revision", "delete revision")
	return text
}

func TestRevisions(t *testing.T) {
	s := state(t, "replicas=0 networks=blue service=db")
	update := s.Revisions[1]
	earlier := update.DeepCopy()
	earlier.OwnerReferences[0].UID = "u-earlier"
	orphan := update.DeepCopy()
	orphan.OwnerReferences = nil
	first := update.DeepCopy()
	first.Revision = 1
	other := update.DeepCopy()
	other.Data = runtime.RawExtension{Raw: []byte(`{"template":{}}`)}
	reordered := update.DeepCopy()
	reordered.Data.Raw = []byte(strings.Replace(string(update.Data.Raw), `{"networks":["blue"],`, `{ "unset": null, "networks" : ["blue"],`, 1))
	newer := state(t, "").Revisions[1]
	newer.Name, newer.Revision, newer.Labels[v1.PodTemplateHashLabel] = "web-newer", 7, "newer"
	for _, tt := range []struct {
		name      string
		revisions []*appsv1.ControllerRevision
		want      string
	}{
		{"the first", nil, "create revision 1 web-HASH"},
		{"it exists", []*appsv1.ControllerRevision{first}, ""},
		{"it exists, with another order of fields", []*appsv1.ControllerRevision{reordered}, ""},
		{"rolled back to an older one", []*appsv1.ControllerRevision{first, newer}, "change revision web-HASH: number 8"},
		{"after another", []*appsv1.ControllerRevision{newer}, "create revision 8 web-HASH"},
		{"one without an owner is adopted", []*appsv1.ControllerRevision{orphan}, "change revision web-HASH: number 1"},
		{"of an earlier Pod2, until that is gone", []*appsv1.ControllerRevision{earlier}, ""},
		{"its name has other content", []*appsv1.ControllerRevision{other}, "create revision 2 web-" + hash(ContentOf(s.Pod2).canonical(), 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Revisions = tt.revisions
			if got := revisionLines(s); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// The oldest are deleted, except those that pods have, and those of other owners.
func TestRevisionHistoryLimit(t *testing.T) {
	s := state(t, "replicas=1 current=old", "web-0 old", "web-7 terminating")
	limit := int32(1)
	s.Pod2.Spec.RevisionHistoryLimit = &limit
	s.Pods[1].Labels[v1.PodTemplateHashLabel] = "used"
	for i, name := range []string{"used", "a", "b", "theirs", "c"} {
		r := s.Revisions[0].DeepCopy()
		r.Name, r.UID, r.Revision, r.Labels[v1.PodTemplateHashLabel] = "web-"+name, "", int64(-9+i), name
		if name == "theirs" {
			r.OwnerReferences[0].UID = "u-earlier"
		}
		s.Revisions = append(s.Revisions, r)
	}
	const want = "delete revision web-a (uid ): beyond revisionHistoryLimit\ndelete revision web-b (uid ): beyond revisionHistoryLimit"
	if got := revisionLines(s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A pod whose node does not respond keeps its name and its addresses, because it may run.
func TestLostNode(t *testing.T) {
	s := state(t, "replicas=1", "web-0 terminating")
	s.Pods[0].Spec.NodeName = "node-7"
	s.Now = now.Add(overdue)
	const want = "False NodeUnreachable: pod web-0 is stuck terminating: node node-7 has not confirmed that it stopped. If the node is permanently gone, " +
		"delete the Node, or taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
	if got := ready(s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	scaledAway := state(t, "replicas=2 reserve=1", "web-0", "web-1 terminating")
	scaledAway.Pods[1].Spec.NodeName = "node-7"
	scaledAway.Now = s.Now
	if got, want := ready(scaledAway), "False PodsNotReady: web-2 does not exist yet; "+strings.TrimPrefix(strings.ReplaceAll(want, "web-0", "web-1"), "False NodeUnreachable: "); got != want {
		t.Errorf("scaled down: got\n%s\nwant\n%s", got, want)
	}
	s.Pods[0].Finalizers = []string{"example.com/hold"}
	if got := ready(s); got != "False PodsNotReady: web-0 is terminating" {
		t.Errorf("held by a finalizer: %s", got)
	}
}
