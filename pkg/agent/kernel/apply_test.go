//go:build linux

package kernel

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// To change a missing link is a failure. To remove one is a success.
func TestAsGoodAsDone(t *testing.T) {
	for _, tt := range []struct {
		action dataplane.Action
		err    error
		want   bool
	}{
		{dataplane.SetLink{Want: dataplane.Link{Name: "rt1001"}}, unix.ENODEV, false},
		{dataplane.AddVeth{Link: dataplane.Link{Name: "rt1001"}}, unix.EEXIST, false},
		{dataplane.AddAddress{}, unix.EEXIST, true},
		{dataplane.AddAddress{}, unix.ENODEV, false},
		{dataplane.DelLink{Name: "rt1001"}, unix.ENODEV, true},
		{dataplane.DelLink{Name: "rt1001"}, unix.EPERM, false},
	} {
		if got := asGoodAsDone(tt.action, tt.err); got != tt.want {
			t.Errorf("%T %s, %v: %t", tt.action, tt.action, tt.err, got)
		}
	}
}
