package sidecar

import (
	"fmt"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// tooMany returns why pods do not get a Sidecar at all, "" if they can. The API server reads
// each Sidecar of a namespace for each new pod, so their number has a bound. A Sidecar that
// was accepted once stays. Of the others, those with the lower names come first. The policy
// pod2-many-sidecars refuses further Sidecars while one is too many.
func (s State) tooMany() string {
	if s.Sidecar.Status.Injected != nil {
		return ""
	}
	first := 0
	for _, other := range s.Others {
		if other.DeletionTimestamp == nil && (other.Status.Injected != nil || other.Name < s.Sidecar.Name) {
			first++
		}
	}
	if first < v1.MaxSidecars {
		return ""
	}
	return fmt.Sprintf("the namespace has %d other Sidecars, and pods get at most %d: delete or merge some", len(s.Others), v1.MaxSidecars)
}
