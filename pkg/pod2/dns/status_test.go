package dns

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/internal/shorten"
	"github.com/pod2/pod2/pkg/plan"
)

func TestCondition(t *testing.T) {
	runDiff(t, []diffTest{
		{"no problem", "networks=green,blue", []string{"service web-blue", "service web-green", "web-0 blue=10.0.0.2 green=10.1.0.2"}, `
			status DNSPublished=True/Published(each replica has a DNS name for each of its addresses: <replica>.web-blue, <replica>.web-green)`},
		{"one waits, another has its names", "networks=blue", []string{"service web-blue", "web-0 gated", "web-1 blue=10.0.0.3"}, `
			status DNSPublished=True/Published(each replica has a DNS name for each of its addresses: <replica>.web-blue)`},
		{"no replica exists", "networks=blue", []string{"service web-blue"}, `
			status DNSPublished=Unknown/NoAddresses(no replica has an address yet; the condition Ready says why)`},
		{"all wait, without an event", "networks=blue", []string{"service web-blue", "web-0 gated", "web-1 over blue=10.0.0.3"}, `
			status DNSPublished=Unknown/NoAddresses(no replica has an address yet; the condition Ready says why)`},
		{"no replica is wanted", "networks=blue replicas=0", []string{"service web-blue"}, `
			status DNSPublished=True/Published(each replica has a DNS name for each of its addresses: <replica>.web-blue)`},
		{"with a former Network", "networks=blue", []string{"service web-blue", "service web-green", "web-0 green=10.1.0.2"}, `
			status DNSPublished=True/Published(each replica has a DNS name for each of its addresses: <replica>.web-blue, <replica>.web-green (until the last replica has left Network green))`},
		{"with former Networks only", "", []string{"service web-green", "web-0 green=10.1.0.2"}, `
			status DNSPublished=True/Published(each replica has a DNS name for each of its addresses: <replica>.web-green (until the last replica has left Network green))`},
		{"a former Network with too long a name", "name=" + strings.Repeat("w", 57), []string{strings.Repeat("w", 57) + "-0 orange=10.1.0.2"}, `
			status DNSPublished=False/InvalidServiceName(Network orange needs a Service with the name ` + strings.Repeat("w", 57) + `-orange, which is invalid (must be no more than 63 characters): replicas have no DNS names there. Use a shorter name for the Pod2 or the Network)
			event Warning InvalidServiceName: Network orange needs a Service with the name ` + strings.Repeat("w", 57) + `-orange, which is invalid (must be no more than 63 characters): replicas have no DNS names there. Use a shorter name for the Pod2 or the Network`},
		{"already written", "networks=blue said", []string{"service web-blue"}, ""},
		{"no Network, no condition", "", nil, ""},
	}, func(s State) string { return lines(s, "status", "event") })
}

func TestConditionGoesWithTheLastNetwork(t *testing.T) {
	s := state(t, "networks=blue said", "service web-blue")
	s.Pod2.Status.Conditions = append(s.Pod2.Status.Conditions, metav1.Condition{Type: "Ready"})
	s.Pod2.Spec.Networks = nil
	if got := lines(s, "status"); got != "status without DNSPublished" {
		t.Errorf("got %s", got)
	}
	if left := Diff(s).Status.Conditions; len(left) != 1 || left[0].Type != "Ready" {
		t.Errorf("conditions left: %v", left)
	}
}

// The status is written as a whole: the parts of other writers stay.
func TestStatusKeepsWhatOthersWrote(t *testing.T) {
	s := state(t, "networks=blue", "service web-blue")
	s.Pod2.Status.ReadyReplicas = 3
	s.Pod2.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	status := Diff(s).Status
	if status.ReadyReplicas != 3 || len(status.Conditions) != 2 || status.Conditions[0].Type != "Ready" {
		t.Errorf("got %+v", status)
	}
}

func TestANewGenerationIsObservedWithoutAnEvent(t *testing.T) {
	s := state(t, "networks=blue said", "service web-blue bare")
	if p := Diff(s); p.Status != nil || len(p.Events) > 0 {
		t.Errorf("already written, and written again\n%s", p)
	}
	s.Pod2.Generation = 2
	p := Diff(s)
	if c := meta.FindStatusCondition(p.Status.Conditions, "DNSPublished"); c.ObservedGeneration != 2 || len(p.Events) > 0 {
		t.Errorf("got %+v and\n%s", c, p)
	}
}

func TestWithFailures(t *testing.T) {
	failure := plan.Failure{Reason: "FailedCreate", Message: "exceeded quota"}
	s := state(t, "networks=blue,green", "service web-blue bare")
	status, events := WithFailures(s, []plan.Failure{failure})
	const want = "NameTaken(Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue; exceeded quota)"
	if got := conditionText(status); got != "DNSPublished=False/"+want || len(events) != 1 {
		t.Errorf("got %s and %v\nwant %s", got, events, want)
	}
	s.Pod2.Status = *status
	if status, events := WithFailures(s, []plan.Failure{failure}); status != nil || events != nil {
		t.Errorf("reported again: %v %v", status, events)
	}
	long, _ := WithFailures(s, []plan.Failure{{Reason: "FailedCreate", Message: strings.Repeat("ä", 2000)}})
	if n := len(long.Conditions[0].Message); n > shorten.EventMessage || n < shorten.EventMessage-8 {
		t.Errorf("a message of %d bytes", n)
	}
}
