package pod2

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// ready renders the condition Ready of the status.
func ready(s State) string {
	c := look(s).ready(look(s).failures())
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestReady(t *testing.T) {
	runDiff(t, []diffTest{
		{"all exist", "replicas=3", []string{"web-0", "web-1", "web-2"}, `True AllReplicasAvailable: all 3 replicas are available`},
		{"one", "replicas=1", []string{"web-0"}, `True AllReplicasAvailable: the replica is available`},
		{"none wanted", "replicas=0", nil, `True AllReplicasAvailable: spec.replicas is 0`},
		{"a surplus does no harm", "replicas=1", []string{"web-0", "web-1"}, `True AllReplicasAvailable: the replica is available`},
		{"a surplus that is still needed", "replicas=2", []string{"web-0 notready", "web-1 notready", "web-2"}, `
			False PodsNotReady: web-0 is not ready (Running); web-1 is not ready (Running); scaled-down pod web-2 stays until more replicas are available`},
		{"a name is taken", "replicas=3", []string{"web-0 earlier", "web-1 of=ReplicaSet/x", "web-2 bare"}, `
			False NameTaken: pod web-1 already exists and is owned by ReplicaSet x: delete it so that the replica can use the name (the controller notices within 30 seconds); pod web-2 already exists and has no controller, but it differs from the template in spec.containers[app].image (the pod has "other:1", the template "nginx:1"): delete it or change the template so that the replica can use the name (the controller notices within 30 seconds)`},
		{"a StatefulSet with the same name has it", "replicas=2", []string{"web-0 of=StatefulSet/web foreign", "web-1 of=StatefulSet/x foreign"}, `
			False NameTaken: pod web-0 already exists and is owned by StatefulSet web: delete the StatefulSet with --cascade=orphan. The controller then adopts the pod if it matches the template (check with ` + "`kubectl pod2 plan`" + `); pod web-1 already exists and is owned by StatefulSet x: delete it so that the replica can use the name (the controller notices within 30 seconds)`},
		{"an earlier Pod2 with the same name", "replicas=2 networks=blue exists=none", []string{"web-0 earlier", "web-1"}, `
			False WaitingForDeletion: web-0 of an earlier Pod2 web still exists`},
		{"a Network that does not exist", "replicas=1 networks=red,blue,green exists=blue", []string{"web-0 gated"}, `
			False NetworkNotFound: Network green does not exist; Network red does not exist: new replicas stay unscheduled until it is created`},
		{"a Network that is being deleted, while all replicas are available", "replicas=1 networks=blue,green terminating=green", []string{"web-0"}, `
			False NetworkTerminating: Network green is being deleted: running replicas keep their addresses, and new ones stay unscheduled until it is deleted and recreated`},
		{"no network for an address", "replicas=2 networks=red,blue hostnetwork", []string{"web-0", "web-1 gated bound=no_network"}, `
			False HostNetwork: spec.template.spec.hostNetwork is true, so new replicas cannot join Networks and stay unscheduled: remove hostNetwork, or remove the Networks blue,red`},
		{"the node's network alone", "replicas=1 hostnetwork", []string{"web-0"}, `True AllReplicasAvailable: the replica is available`},
		{"no addresses: the pod knows why", "replicas=3 networks=blue exhausted=blue", []string{"web-0 failed", "web-1 gated", "web-2 gated bound=10.1.0.7_is_held_by_pod_x"}, `
			False WaitingForAddresses: web-2: 10.1.0.7 is held by pod x`},
		{"no addresses: the Network knows why", "replicas=1 networks=green,blue exhausted=blue", []string{"web-0 gated"}, `
			False WaitingForAddresses: Network blue: no address is free for: web-0`},
		{"addresses are about to be bound", "replicas=2 networks=blue", []string{"web-0 gated", "web-1 gated"}, `
			False WaitingForAddresses: replicas are waiting for their addresses`},
		{"terminated", "replicas=2", []string{"web-0 old", "web-1 failed=Evicted"}, `
			False PodsFailing: web-1 terminated (Failed: Evicted)`},
		{"terminated repeatedly", "replicas=1 " + records(entry("web-0", "u-0", 3, 0)), []string{"web-0 failed"}, `
			False PodsFailing: web-0 terminated 3 times (Failed)`},
		{"still failing, while the next one starts", "replicas=1 " + records(entry("web-0", "u-before", 3, 0)), []string{"web-0 notready"}, `
			False PodsFailing: web-0 terminated 3 times`},
		{"no longer failing once it is available", "replicas=1 " + records(entry("web-0", "u-before", 3, 0)), []string{"web-0"}, `
			True AllReplicasAvailable: the replica is available`},
		{"an update", "replicas=3", []string{"web-0 old", "web-1 old terminating", "web-2"}, `
			False Updating: 1 of 3 replicas are updated`},
		{"an update that is stuck", "replicas=3", []string{"web-0 old", "web-1 unschedulable=no_node", "web-2 notready=no_image"}, `
			False Updating: 2 of 3 replicas are updated; web-1 cannot be scheduled: no node; web-2 is not ready (Running: no image)`},
		{"a surge replica that cannot start", "replicas=2 surge=1", []string{"web-0 old", "web-1 old", "web-2 waiting=ImagePullBackOff/no_such_image"}, `
			False Updating: 0 of 2 replicas are updated; web-2 is not ready (Running: container app: ImagePullBackOff: no such image)`},
		{"a surge replica without an address", "replicas=1 surge=1 networks=blue", []string{"web-0 old", "web-1 gated bound=no_address_is_free"}, `
			False WaitingForAddresses: web-1: no address is free`},
		{"the name of a surge replica is taken", "replicas=1 surge=1", []string{"web-0 old", "web-1 of=ReplicaSet/x"}, `
			False NameTaken: pod web-1 already exists and is owned by ReplicaSet x: delete it so that the replica can use the name (the controller notices within 30 seconds)`},
		{"no surge replica is missing while updates are paused", "replicas=1 surge=2 paused " + records(entry("web-1", "u-before", 2, 0)), []string{"web-0", "web-2"}, `
			True AllReplicasAvailable: the replica is available`},
		{"no replica wants that name while updates are paused", "replicas=1 surge=1 paused", []string{"web-0", "web-1 of=ReplicaSet/x"}, `
			True AllReplicasAvailable: the replica is available`},
		{"recreation waits for the last", "replicas=2 recreate", []string{"web-7 old terminating"}, `
			False Updating: 0 of 2 replicas are updated`},
		{"no node", "replicas=2", []string{"web-0 notready", "web-1 unschedulable=0/3_nodes_are_available"}, `
			False Unschedulable: web-1 cannot be scheduled: 0/3 nodes are available`},
		{"not ready, for different reasons", "replicas=3", []string{"web-0 notready=unready:_[app]", "web-1 terminating"}, `
			False PodsNotReady: web-0 is not ready (Running: unready: [app]); web-1 is terminating; web-2 does not exist yet`},
		{"an image that cannot be pulled", "replicas=1", []string{"web-0 waiting=ImagePullBackOff/no_such_image"}, `
			False PodsNotReady: web-0 is not ready (Running: container app: ImagePullBackOff: no such image)`},
		{"ready for too short a time", "replicas=1 minReady=10", []string{"web-0 ready=4s"}, `
			False PodsNotReady: web-0 has been ready for less than minReadySeconds (10)`},
		{"a gate of another controller", "replicas=1", []string{"web-0 gate=quota.io/wait"}, `
			False PodsNotReady: web-0 is held by the scheduling gate quota.io/wait`},
		{"more than a message names", "replicas=9", nil, `
			False PodsNotReady: web-0 does not exist yet; web-1 does not exist yet; web-2 does not exist yet; and others`},
	}, ready)
}

func TestStatus(t *testing.T) {
	status := func(s State) string {
		text, _, _ := strings.Cut(lines(s, "status"), " Ready=")
		return text
	}
	runDiff(t, []diffTest{
		{"all counters", "replicas=6 networks=green,blue generation=4 minReady=10", []string{
			"web-0", "web-1 ready=2s", "web-2 old notready", "web-3 terminating", "web-4 failed", "web-5 bare", "web-7 old"}, `
			status ready 3/4 available 2 updated 2 current "" update "web-HASH" networks "blue,green" generation 4`},
		{"revision of a new Pod2", "replicas=2", nil, `
			status ready 0/0 available 0 updated 0 current "web-HASH" update "web-HASH" networks "" generation 1`},
		{"the old revision while a pod has it", "replicas=2 current=old", []string{"web-0 old", "web-1"}, `
			status ready 2/2 available 2 updated 1 current "web-old" update "web-HASH" networks "" generation 1`},
		{"and while no pod has the new one", "replicas=1 current=old", []string{"web-0 old terminating"}, `
			status ready 0/0 available 0 updated 0 current "web-old" update "web-HASH" networks "" generation 1`},
		{"the new one once all replicas have it", "replicas=2 current=old", []string{"web-0", "web-1 notready"}, `
			status ready 1/2 available 1 updated 2 current "web-HASH" update "web-HASH" networks "" generation 1`},
		{"or when no replica is wanted", "replicas=0 current=old", nil, `
			status ready 0/0 available 0 updated 0 current "web-HASH" update "web-HASH" networks "" generation 1`},
	}, status)
}

// A condition's age is the age of its status, not of its message.
func TestTransitionTime(t *testing.T) {
	s := state(t, "replicas=1", "web-0 notready")
	s.Pod2.Status = *Diff(s).Status
	s.Now = now.Add(time.Minute)
	s.Pods[0] = pod(t, s.Pod2, "web-0 notready=of_late")
	age := func() metav1.Time {
		s.Pod2.Status = *Diff(s).Status
		return meta.FindStatusCondition(s.Pod2.Status.Conditions, v1.ConditionReady).LastTransitionTime
	}
	if got := age(); !got.Time.Equal(now) {
		t.Errorf("another message: %s, want %s", got, now)
	}
	s.Pods[0] = pod(t, s.Pod2, "web-0")
	if got := age(); !got.Time.Equal(s.Now) {
		t.Errorf("another status: %s, want %s", got, s.Now)
	}
}

func TestWithFailures(t *testing.T) {
	s := state(t, "replicas=3 generation=2", "web-0", "web-1")
	quota := plan.Failure{Reason: "FailedCreate", Message: `pods "web-2" is forbidden: exceeded quota`}
	status := WithFailures(s, []plan.Failure{quota})
	const want = `ready 2/2 available 2 updated 2 current "web-HASH" update "web-HASH" networks "" generation 2 ` +
		`Ready=False/FailedCreate(pods "web-2" is forbidden: exceeded quota) ` +
		`Available=True/MinimumReplicasAvailable(2 replicas are available (at least 2 required)) ` +
		`Progressing=True/Progressing(pods "web-2" is forbidden: exceeded quota)`
	if got := strings.ReplaceAll(statusText(status), RevisionHash(s.Pod2), "HASH"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Pod2.Status = *status
	s.Now = now.Add(time.Hour)
	if again := WithFailures(s, []plan.Failure{quota}); again != nil {
		t.Errorf("already written, and written again: %s", statusText(again))
	}
}

func TestARefusalOfAnotherReplicaIsNotWrittenAgain(t *testing.T) {
	s := state(t, "replicas=30")
	s.Pod2.Status = *WithFailures(s, []plan.Failure{{Reason: "FailedCreate", Message: `pods "web-2" is forbidden: used: pods=20`}})
	for message, writes := range map[string]bool{
		`pods "web-12" is forbidden: used: pods=20`: false, `pods "web-2" is forbidden: used: pods=21`: true, `pods "web-2" is invalid`: true,
	} {
		if status := WithFailures(s, []plan.Failure{{Reason: "FailedCreate", Message: message}}); (status != nil) != writes {
			t.Errorf("%s: written %t, want %t", message, status != nil, writes)
		}
	}
}

// The status of a plan that creates fewer replicas waits until numbers may change.
func TestNumbersOfManyCreationsAreNotHeld(t *testing.T) {
	for replicas, want := range map[int]bool{100: false, 101: true} {
		s := state(t, fmt.Sprintf("replicas=%d", replicas), "web-0")
		s.Pod2.Status = *Diff(s).Status
		s.Pod2.Status.Replicas, s.NumbersHeld = 0, time.Second
		if got := Diff(s).Status != nil; got != want {
			t.Errorf("with %d of %d replicas missing, it writes the status: %t", replicas-1, replicas, got)
		}
	}
}

// A replaced replica is missing, waits for its address, and is then not ready. Its Pod2 is written
// before and after, not for each of these reasons, unless one of them lasts.
func TestReasonsOfFalseConditionsAreHeld(t *testing.T) {
	told := *Diff(state(t, "replicas=2", "web-0")).Status
	for _, row := range []struct {
		pod    string
		held   time.Duration
		writes bool
	}{{"web-1 gated", time.Second, false}, {"web-1 notready", time.Second, false}, {"web-1 gated", 0, true}, {"web-1", time.Second, true}} {
		s := state(t, "replicas=2", "web-0", row.pod)
		s.Pod2.Status, s.NumbersHeld = told, row.held
		p := Diff(s)
		if (p.Status != nil) != row.writes {
			t.Errorf("with %s, held for %s, it writes the status: %t", row.pod, row.held, p.Status != nil)
		}
		if !row.writes && p.RequeueAfter != row.held {
			t.Errorf("with %s, held for %s, it looks again after %s", row.pod, row.held, p.RequeueAfter)
		}
	}
}
