//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// AttachSockets attaches no_bypass to the sockets of all processes in a control group and in those below it. It refuses
// those in the network namespace of the calling thread. The directory is where cgroup v2 is mounted, or cgroup v1 with v2
// in its directory unified. The program outlives the agent. If directory is empty, AttachSockets removes it.
func (p *Programs) AttachSockets(directory string) error {
	const name = "no_bypass"
	program, pin := p.collection.Programs[name], filepath.Join(p.dir, name)
	if directory == "" {
		if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s from sockets: %w", name, err)
		}
		return nil
	}
	netns, err := netnsCookie()
	if err != nil {
		return err
	}
	if err := p.set("home", uint32(0), netns, "the node's network namespace"); err != nil {
		return err
	}
	attached, err := link.LoadPinnedLink(pin, nil)
	if err == nil {
		err = attached.Update(program)
	} else if errors.Is(err, fs.ErrNotExist) {
		attached, err = link.AttachCgroup(link.CgroupOptions{Path: cgroup2(directory), Attach: ebpf.AttachCGroupSetsockopt, Program: program})
		if err == nil {
			err = attached.Pin(pin)
		}
	}
	if attached != nil {
		_ = attached.Close()
	}
	if err != nil {
		return fmt.Errorf("attach %s to the sockets of the control groups in %s: mount cgroup v2 of the node there, or allow sockets that skip tc with --cgroup-dir= (docs/concepts/limitations.md): %w", name, directory, err)
	}
	return nil
}

func cgroup2(directory string) string {
	var s unix.Statfs_t
	hybrid := filepath.Join(directory, "unified")
	if err := unix.Statfs(hybrid, &s); err == nil && s.Type == unix.CGROUP2_SUPER_MAGIC {
		return hybrid
	}
	return directory
}

// netnsCookie identifies the network namespace of the calling thread.
func netnsCookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("identify the network namespace: make a socket: %w", err)
	}
	defer unix.Close(socket)
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("identify the network namespace: %w", err)
	}
	return cookie, nil
}
