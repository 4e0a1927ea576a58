//go:build linux

package bpf

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// socketsObject is the ELF file of src/sockets.c, as object is that of src/pod2.c.
//
//go:embed sockets.hex
var socketsObject string

const noBypass = "no_bypass"

// RefuseBypass lets no socket in the network namespace of the calling thread send past the programs of tc. Sockets that do
// already are not changed. The program outlives the agent. The kernel needs types (BTF), and trampolines: arm64 has
// those from Linux 6.4 on.
func (p *Programs) RefuseBypass() error {
	node, err := netnsCookie()
	if err != nil {
		return err
	}
	s, err := parseObject(socketsObject)
	if err != nil {
		return err
	}
	if err := s.Variables["node"].Set(node); err != nil {
		return fmt.Errorf("set the network namespace of %s: %w", noBypass, err)
	}
	c, err := ebpf.NewCollection(s)
	if err != nil {
		return fmt.Errorf("load %s into the kernel: %w", noBypass, err)
	}
	defer c.Close()
	attached, err := link.AttachTracing(link.TracingOptions{Program: c.Programs[noBypass]})
	if err != nil {
		return fmt.Errorf("attach %s: %w", noBypass, err)
	}
	defer attached.Close()
	// The new program takes the file of the one before, which is detached then. So no moment is without one.
	next := p.noBypass("_next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the rest of an unfinished start: %w", err)
	}
	if err := attached.Pin(next); err != nil {
		return fmt.Errorf("keep %s: %w", noBypass, err)
	}
	if err := os.Rename(next, p.noBypass("")); err != nil {
		return errors.Join(fmt.Errorf("keep %s: %w", noBypass, err), os.Remove(next))
	}
	return nil
}

// AllowBypass removes the program of RefuseBypass.
func (p *Programs) AllowBypass() error {
	for _, suffix := range []string{"", "_next"} {
		if err := os.Remove(p.noBypass(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", noBypass, err)
		}
	}
	return nil
}

// noBypass is the file that keeps the program attached.
func (p *Programs) noBypass(suffix string) string { return filepath.Join(p.dir, noBypass+suffix) }

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
