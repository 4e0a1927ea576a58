package sidecar

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Plan lists the writes, in the order in which apply makes them.
type Plan struct {
	// Probe is created in a dry run, by fixed name: nothing is stored. The answer must have
	// the present generation. Nil if that is already known.
	Probe *corev1.Pod
	// Status, AFTER the probe; nil if it is already written. It reports the state after the
	// plan.
	Status *v1.SidecarStatus
	// Events follow the writes.
	Events []plan.Event
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return p.Probe == nil && p.Status == nil }

// String has one action a line, in the order in which they are made.
func (p Plan) String() string {
	var b strings.Builder
	if p.Probe != nil {
		fmt.Fprintf(&b, "dry run of pod %s\n", p.Probe.Name)
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
