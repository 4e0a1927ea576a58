//go:build linux

package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// Listen makes the socket, which only its owner can use. The directory gets mode 0700 before the
// socket exists, so nobody else can connect even for a moment.
//
// The socket takes the place of an older one in one step, and stays when the listener is closed:
// by then it may belong to the next agent.
func Listen(path string) (*net.UnixListener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket for pod2-cni: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("the directory of the socket for pod2-cni: %w", err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; !info.IsDir() || int(owner) != os.Geteuid() {
		return nil, fmt.Errorf("%s must be a directory of user %d, for the socket for pod2-cni: it has mode %s and belongs to user %d", dir, os.Geteuid(), info.Mode(), owner)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("protect the directory of the socket for pod2-cni: %w", err)
	}
	next := path + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove an unfinished socket for pod2-cni: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: next, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make the socket for pod2-cni: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(next, 0o600), os.Rename(next, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("make the socket for pod2-cni: %w", err), l.Close())
	}
	return l, nil
}
