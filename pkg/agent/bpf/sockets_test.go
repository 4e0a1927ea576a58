//go:build linux && kernel

package bpf

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// bypasses are options by which a socket sends past tc.
var bypasses = map[string]func() error{
	"PACKET_QDISC_BYPASS": func() error { return setOption(unix.AF_PACKET, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS) },
	"XDP_TX_RING":         func() error { return setOption(unix.AF_XDP, unix.SOL_XDP, unix.XDP_TX_RING) },
}

// In the node's own network namespace, no program can make a socket that sends past tc. In others it can. The program stays
// when the agent ends, and another agent replaces it.
func TestNoBypass(t *testing.T) {
	l := newLab(t, false)
	n, other := l.nodes[0], l.nodes[1]
	for name, bypass := range bypasses {
		must(t, in(n.ns, bypass))
		for range 2 {
			n.refuseBypass(t)
			if err := in(n.ns, bypass); !errors.Is(err, unix.EPERM) {
				t.Errorf("%s in the node's namespace: got %v, want %v", name, err, unix.EPERM)
			}
		}
		must(t, in(other.ns, bypass))
		must(t, n.p.AllowBypass())
		n.allows(t, bypass)
	}
	n.refuseBypass(t)
	removed, err := Unpin(filepath.Dir(n.p.dir))
	if must(t, err); !slices.Contains(removed, "the program no_bypass") {
		t.Errorf("removed %q", removed)
	}
	n.allows(t, bypasses["XDP_TX_RING"])
}

func (n *node) refuseBypass(t *testing.T) {
	t.Helper()
	err := in(n.ns, n.p.RefuseBypass)
	if errors.Is(err, unix.EPERM) || runtime.GOARCH == "arm64" && errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("a security policy forbids programs of this kind, or arm64 before Linux 6.4: %v", err)
	}
	must(t, err)
}

// allows waits until the kernel has removed the program, which it does shortly after its file is gone.
func (n *node) allows(t *testing.T, bypass func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if err = in(n.ns, bypass); err == nil {
			return
		}
	}
	t.Errorf("without the program, still: %v", err)
}

// Other options of the node's sockets pass.
func TestOtherOptionsPass(t *testing.T) {
	n := newLab(t, false).nodes[0]
	n.refuseBypass(t)
	for _, o := range []struct{ family, level, option int }{
		{unix.AF_PACKET, unix.SOL_PACKET, unix.PACKET_AUXDATA},
		{unix.AF_XDP, unix.SOL_XDP, unix.XDP_RX_RING},
		{unix.AF_INET, unix.SOL_SOCKET, unix.PACKET_QDISC_BYPASS}, // SO_BROADCAST and others have small numbers, too
	} {
		if err := in(n.ns, func() error { return setOption(o.family, o.level, o.option) }); errors.Is(err, unix.EPERM) {
			t.Errorf("option %d of level %d: %v", o.option, o.level, err)
		}
	}
}

// setOption of a new socket to 64, a size that rings may have.
func setOption(family, level, option int) error {
	kind := unix.SOCK_RAW
	if family == unix.AF_INET {
		kind = unix.SOCK_DGRAM
	}
	socket, err := unix.Socket(family, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	return unix.SetsockoptInt(socket, level, option, 64)
}
