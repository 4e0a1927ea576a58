//go:build linux && kernel

package bpf

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Programs in the node's own network namespace cannot make a socket that sends past tc. In others they can. The program
// stays when the agent ends, and is gone after a clean-up.
func TestSocketsCannotSkipTC(t *testing.T) {
	l := newLab(t, false)
	n, other := l.nodes[0], l.nodes[1]
	cgroups := t.TempDir()
	must(t, unix.Mount("none", cgroups, "cgroup2", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(cgroups, 0)) })
	for name, skip := range map[string]func() error{
		"a packet socket": func() error { return setOption(unix.AF_PACKET, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 4) },
		"AF_XDP":          func() error { return setOption(unix.AF_XDP, unix.SOL_XDP, unix.XDP_TX_RING, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, in(n.ns, skip))
			for range 2 { // the agent attaches it again at each full comparison
				must(t, in(n.ns, func() error { return n.p.AttachSockets(cgroups) }))
			}
			if err := in(n.ns, skip); !errors.Is(err, unix.EPERM) {
				t.Errorf("in the node's namespace: got %v, want %v", err, unix.EPERM)
			}
			must(t, in(other.ns, skip))
			must(t, n.p.AttachSockets(""))
			n.allows(t, skip)
		})
	}
	must(t, in(n.ns, func() error { return n.p.AttachSockets(cgroups) }))
	must(t, Unpin(filepath.Dir(n.p.dir)))
	n.allows(t, func() error { return setOption(unix.AF_PACKET, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 4) })
}

// allows waits until the kernel has taken the program from sockets, which it does shortly after its file is gone.
func (n *node) allows(t *testing.T, skip func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if err = in(n.ns, skip); err == nil {
			return
		}
	}
	t.Errorf("without the program, still: %v", err)
}

// Other options of the node's sockets pass, also with values larger than the kernel shows to the program.
func TestOtherSocketOptionsPass(t *testing.T) {
	n := newLab(t, false).nodes[0]
	cgroups := t.TempDir()
	must(t, unix.Mount("none", cgroups, "cgroup2", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(cgroups, 0)) })
	must(t, in(n.ns, func() error { return n.p.AttachSockets(cgroups) }))
	for _, size := range []int{4, 4096, 4097, 1 << 16} {
		if err := in(n.ns, func() error { return setOption(unix.AF_INET, unix.SOL_SOCKET, unix.SO_RCVBUF, size) }); err != nil {
			t.Errorf("a value of %d bytes: %v", size, err)
		}
	}
}

// A directory that has no control groups is named, with the way out.
func TestNoControlGroups(t *testing.T) {
	n := newLab(t, false).nodes[0]
	directory := t.TempDir()
	err := in(n.ns, func() error { return n.p.AttachSockets(directory) })
	want := "attach no_bypass to the sockets of the control groups in " + directory + ": mount cgroup v2 of the node there, or allow sockets that skip tc with --cgroup-dir= (docs/concepts/limitations.md): "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got\n%v\nwant\n%s...", err, want)
	}
}

// setOption of a new socket. The value is 64, a size that rings may have, in so many bytes.
func setOption(family, level, option, size int) error {
	kind := unix.SOCK_RAW
	if family == unix.AF_INET {
		kind = unix.SOCK_DGRAM
	}
	socket, err := unix.Socket(family, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	value := make([]byte, size)
	value[0] = 64
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(socket), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&value[0])), uintptr(size), 0); errno != 0 {
		return errno
	}
	return nil
}
