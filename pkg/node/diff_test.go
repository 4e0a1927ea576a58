package node

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// state is node-1 with a condition, if given, of the given age.
func state(condition string, since time.Duration, agents ...string) State {
	s := State{Now: now, Namespace: "pod2-agent", Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u1", ResourceVersion: "7"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}}
	for _, agent := range agents {
		s.Agents = append(s.Agents, pod(agent))
	}
	if c := written(s, condition); c != nil {
		c.LastTransitionTime = metav1.NewTime(now.Add(-since))
		s.Node.Status.Conditions = append(s.Node.Status.Conditions, *c)
	}
	return s
}

// written is a condition as the controller writes it, "True" or "False", or as another
// client does.
func written(s State, condition string) *corev1.NodeCondition {
	c := &corev1.NodeCondition{Type: v1.ConditionDataPlaneReady, Status: corev1.ConditionStatus(condition)}
	switch condition {
	case "":
		return nil
	case "True":
		c.Reason, c.Message = ReasonAgentReady, readyMessage
	case "False":
		c.Reason, c.Message = ReasonAgentNotReady, s.notReady()
	default:
		status, reason, _ := strings.Cut(condition, "/")
		c.Status, c.Reason = corev1.ConditionStatus(status), reason
	}
	return c
}

// pod is "Ready", "NotReady", "Unknown" or "new" (before its first status). It may also
// be "going" or "over".
func pod(words string) *corev1.Pod {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for word := range strings.FieldsSeq(words) {
		status := corev1.ConditionFalse
		switch word {
		case "new":
			p.Status.Phase = corev1.PodPending
			continue
		case "going":
			p.DeletionTimestamp = &metav1.Time{Time: now}
			continue
		case "over":
			p.Status.Phase = corev1.PodFailed
			continue
		case "Ready":
			status = corev1.ConditionTrue
		case "Unknown":
			status = corev1.ConditionUnknown
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: status}}
	}
	return p
}

const (
	yes    = "set on node-1 (uid u1, version 7): samplecrd.k8s.io/DataPlaneReady=True/AgentReady since SINCE: Data plane is programmed"
	no     = "set on node-1 (uid u1, version 7): samplecrd.k8s.io/DataPlaneReady=False/AgentNotReady since SINCE: no pod2-agent pod on this node is Ready, so the data plane may be incomplete: run kubectl --namespace=pod2-agent get pods --field-selector=spec.nodeName=node-1, and kubectl logs for the pods that it lists"
	remove = "remove from node-1 (uid u1, version 7)"
)

func TestDiff(t *testing.T) {
	at := func(text, since string) string { return strings.Replace(text, "SINCE", since, 1) }
	nowhere := state("True", 0)
	nowhere.Node = nil
	for _, tt := range []struct {
		name  string
		state State
		want  string
	}{
		{"no Node", nowhere, ""},
		{"no agent, and never one", state("", 0), ""},

		{"the first agent, before its first status", state("", 0, "new"), at(no, "12:00:00")},
		{"an agent with unknown readiness", state("", 0, "Unknown"), at(no, "12:00:00")},
		{"the first agent is Ready", state("", 0, "Ready"), at(yes, "12:00:00")},
		{"it becomes Ready", state("False", time.Hour, "Ready"), at(yes, "12:00:00")},
		{"it stays Ready", state("True", time.Hour, "Ready"), ""},
		{"it is no longer Ready", state("True", time.Hour, "NotReady"), at(no, "12:00:00")},
		{"it is still not Ready", state("False", time.Hour, "NotReady"), ""},

		{"it is being deleted and still Ready", state("True", time.Hour, "Ready going"), at(no, "12:00:00")},
		{"it was evicted, and its last status is Ready", state("True", time.Hour, "Ready over"), at(no, "12:00:00")},
		{"between two agents", state("False", 9*time.Second), "again in 1s"},
		{"the next agent starts", state("False", 9*time.Second, "new"), ""},
		{"the next agent starts before the old one is gone", state("False", time.Hour, "Ready going", "new"), ""},
		{"the next agent is Ready before the old one is gone", state("False", time.Hour, "Ready going", "Ready"), at(yes, "12:00:00")},
		{"a surge, and the old agent is still Ready", state("True", time.Hour, "new", "Ready"), ""},

		{"the agent is gone without a status", state("True", time.Hour), at(no, "12:00:00")},
		{"it is gone for good", state("False", goneAfter), remove},
		{"by a clock that was ahead", state("False", -time.Hour), remove},

		{"another client wrote a reason", state("True/Mine", time.Hour, "Ready"), at(yes, "11:00:00")},
		{"another client wrote a reason, False", state("False/Mine", time.Hour, "NotReady"), at(no, "11:00:00")},
		{"another client wrote a status", state("Unknown/Mine", time.Hour, "NotReady"), at(no, "12:00:00")},
		{"another client wrote a status, without any agent", state("Unknown/Mine", time.Hour), at(no, "12:00:00")},
		{"or False", state("False/Mine", time.Hour), remove},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Diff(tt.state)
			if got := strings.TrimSpace(p.String()); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if why := undone(tt.state); p.Empty() != (why == "") {
				t.Errorf("Empty is %t, and still to do: %q", p.Empty(), why)
			}
		})
	}
}
