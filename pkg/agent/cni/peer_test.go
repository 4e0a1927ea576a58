//go:build linux && kernel

package cni

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel names the user of the thread that connected. Without the modes of the socket and its
// directory, another user could connect, and is refused.
func TestPeerOfAnotherUser(t *testing.T) {
	j := &journal{}
	path, _ := start(t, &Server{Handler: j})
	asNobody := func() error {
		got := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread stays another user, and ends
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
				got <- errno
				return
			}
			got <- Client{path}.Status(context.Background())
		}()
		return <-got
	}
	if err := asNobody(); !errors.Is(err, unix.EACCES) || !errors.Is(err, ErrAway) {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := asNobody(); err == nil || err.Error() != "pod2-agent refuses requests of user 65534: pod2-cni must run as user 0" || j.String() != "" {
		t.Errorf("got %v, handled %q", err, j)
	}
}
