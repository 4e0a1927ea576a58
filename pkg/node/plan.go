package node

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/plan"
)

// Plan is at most one write, of one condition of one Node.
type Plan struct {
	// Node, with the preconditions of the write: the Node that was looked at, not its
	// successor of the same name, and as it was.
	Node            string
	UID             types.UID
	ResourceVersion string
	// Set the condition, or Remove it.
	Set    *corev1.NodeCondition
	Remove bool
	// RequeueAfter is when time alone changes something; zero: never.
	RequeueAfter time.Duration
}

// Empty says that nothing is to be written.
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
