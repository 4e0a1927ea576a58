package node

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/plan"
)

// Plan has at most one write, of one condition of one Node.
type Plan struct {
	// Node, with the preconditions of the write: the observed version of the Node, not a
	// later version and not a new Node with its name.
	Node            string
	UID             types.UID
	ResourceVersion string
	// Set the condition, or Remove it.
	Set    *corev1.NodeCondition
	Remove bool
	// RequeueAfter is the time until the passing of time changes something; zero: never.
	RequeueAfter time.Duration
}

// Empty says whether there is nothing to write.
func (p Plan) Empty() bool { return p.Set == nil && !p.Remove }

// String has one action a line.
func (p Plan) String() string {
	var b strings.Builder
	precondition := fmt.Sprintf("(uid %s, version %s)", p.UID, p.ResourceVersion)
	if p.Set != nil {
		fmt.Fprintf(&b, "set on %s %s: %s=%s/%s since %s: %s\n", p.Node, precondition, p.Set.Type, p.Set.Status, p.Set.Reason,
			p.Set.LastTransitionTime.UTC().Format(time.TimeOnly), p.Set.Message)
	}
	if p.Remove {
		fmt.Fprintf(&b, "remove from %s %s\n", p.Node, precondition)
	}
	return b.String() + plan.Tail(nil, p.RequeueAfter)
}
