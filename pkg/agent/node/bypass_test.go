//go:build linux && kernel

package node

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Sockets of the node cannot send past the programs, or the agent reports that the kernel does not take the program that
// refuses them. If they are allowed, nothing is reported.
func TestBypassIsRefusedOrReported(t *testing.T) {
	n := newLab(t, 1).nodes[0]
	for _, allow := range []bool{true, false} {
		n.in(n.name, func() error {
			one, err := New(Config{Name: n.name, Directory: n.bpf, AllowBypass: allow})
			if err != nil {
				return err
			}
			defer one.Close()
			socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
			if err != nil {
				return err
			}
			defer unix.Close(socket)
			refused := errors.Is(unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1), unix.EPERM)
			reported := strings.Contains(strings.Join(one.Problems(), "\n"), "may send past the eBPF programs")
			if allow && (refused || reported) || !allow && refused == reported {
				t.Errorf("allowed %t: refused %t, reported %t: %q", allow, refused, reported, one.Problems())
			}
			return nil
		})
	}
}
