//go:build linux

package kernel

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// A step on a missing link of the agent's own is not done.
func TestAsGoodAsDone(t *testing.T) {
	for _, tt := range []struct {
		step dataplane.Step
		err  error
		want bool
	}{
		{dataplane.Step{Action: dataplane.SetLink{Want: dataplane.Link{Name: "veth1"}}}, unix.ENODEV, true},
		{dataplane.Step{Action: dataplane.SetLink{Want: dataplane.Link{Name: "veth1"}}}, unix.EPERM, false},
		{dataplane.Step{Action: dataplane.SetLink{Want: dataplane.Link{Name: "vx1001"}}}, unix.ENODEV, false},
		{dataplane.Step{Namespace: "pod2-1001", Action: dataplane.SetLink{Want: dataplane.Link{Name: "lan"}}}, unix.ENODEV, false},
		{dataplane.Step{Action: dataplane.ReplaceFDB{FDB: dataplane.FDB{Dev: "veth1"}}}, unix.ENODEV, true},
		{dataplane.Step{Action: dataplane.ReplaceFDB{FDB: dataplane.FDB{Dev: "vx1001"}}}, unix.ENODEV, false},
		{dataplane.Step{Action: dataplane.ReplaceNeighbour{Neighbour: dataplane.Neighbour{Dev: "nw1001"}}}, unix.ENODEV, false},
		{dataplane.Step{Action: dataplane.DelLink{Name: "vx1001"}}, unix.ENODEV, true},
	} {
		if got := asGoodAsDone(tt.step, tt.err); got != tt.want {
			t.Errorf("%+v, %v: %t", tt.step, tt.err, got)
		}
	}
}
