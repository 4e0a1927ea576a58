package sidecar

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// Plan lists the writes, in the order in which apply makes them.
type Plan struct {
	// Probe is created in a dry run, by fixed name: nothing is stored. The answer must have
	// the present generation. Nil if that is already known.
	Probe *corev1.Pod
	// InPlace updates of running pods, except replicas of Pod2s. Precondition: UID and
	// resourceVersion, because the annotation has containerIDs of that view.
	InPlace []pod2.InPlaceUpdate
	// Pod2s have replicas to update. Their syncs make the updates.
	Pod2s []string
	// Status, AFTER the others; nil if it is already written. It reports the state after the
	// plan.
	Status *v1.SidecarStatus
	// Events follow the writes.
	Events []plan.Event
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return p.Probe == nil && p.Status == nil && len(p.InPlace) == 0 }

// String has one action a line, in the order in which they are made.
func (p Plan) String() string {
	var b strings.Builder
	if p.Probe != nil {
		fmt.Fprintf(&b, "dry run of pod %s\n", p.Probe.Name)
	}
	for _, u := range p.InPlace {
		fmt.Fprintf(&b, "update %s in place (uid %s): %s\n", u.Name, u.UID, u.Reason)
	}
	for _, name := range p.Pod2s {
		fmt.Fprintf(&b, "update replicas of Pod2 %s\n", name)
	}
	if s := p.Status; s != nil {
		injected := "none"
		if s.Injected != nil {
			injected = fmt.Sprint(s.Injected.Generation)
		}
		fmt.Fprintf(&b, "status matched %d upToDate %d ready %d injected %s%s\n", s.Matched, s.UpToDate, s.Ready, injected, plan.ConditionsText(s.Conditions))
	}
	return b.String() + plan.Tail(p.Events, 0)
}
