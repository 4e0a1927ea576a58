//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Kernel is that of one node.
type Kernel struct {
	host netns.NsHandle // the node's
	dir  string         // of the routers' namespaces: a file of each name, on which it is mounted

	// ours are the indexes of links that the last Read found to be ours.
	ours indexes
}

// New is of the node whose network namespace the calling process is in. In dir, which is
// /run/netns where `ip netns` is to find them, are the routers' namespaces.
func New(dir string) (*Kernel, error) { return NewAt("/proc/thread-self/ns/net", dir) }

// NewAt is of the node whose network namespace is at that path.
func NewAt(host, dir string) (*Kernel, error) {
	nl.EnableErrorMessageReporting = true // in the kernel's own words
	ns, err := netns.GetFromPath(host)
	if err != nil {
		return nil, fmt.Errorf("open the network namespace of the node, %s: %w", host, err)
	}
	return &Kernel{host: ns, dir: dir}, nil
}

// Close it.
func (k *Kernel) Close() error { return k.host.Close() }

// open the namespace of the name, "" for the node's. A file on which none is mounted, as
// a crash in the middle of making it leaves, is fs.ErrNotExist.
func (k *Kernel) open(name string) (netns.NsHandle, error) {
	path := filepath.Join(k.dir, name)
	if name == "" {
		path = fmt.Sprintf("/proc/self/fd/%d", k.host)
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return ns, fmt.Errorf("open network namespace %q: %w", name, err)
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(ns), &stat); err != nil || stat.Type != unix.NSFS_MAGIC {
		_ = ns.Close()
		return ns, fmt.Errorf("network namespace %q: nothing is mounted on %s: %w", name, path, errors.Join(err, fs.ErrNotExist))
	}
	return ns, nil
}

// in does f on a thread that is in the namespace, and that ends with it.
func (k *Kernel) in(name string, f func() error) error {
	ns, err := k.open(name)
	if err != nil {
		return err
	}
	defer ns.Close()
	return onThread(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter network namespace %q: %w", name, err)
		}
		return f()
	})
}

func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		result <- f()
	}()
	return <-result
}

// namespaces that are routers', in name order.
func (k *Kernel) namespaces() ([]string, error) {
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if dataplane.OwnNamespace(e.Name()) == 0 {
			continue
		}
		ns, err := k.open(e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		_ = ns.Close()
		names = append(names, e.Name())
	}
	return names, nil
}

// addNamespace is kept by a mount, so that it outlives this process. netns.NewNamed knows
// one directory only, and gives up where a crash left the file.
func (k *Kernel) addNamespace(name string) error {
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of network namespaces: %w", err)
	}
	path := filepath.Join(k.dir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o444)
	if err != nil {
		return fmt.Errorf("make a file to mount network namespace %s on: %w", name, err)
	}
	_ = f.Close()
	return onThread(func() error {
		ns, err := netns.New()
		if err != nil {
			return fmt.Errorf("make network namespace %s: %w", name, err)
		}
		defer ns.Close()
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount network namespace %s on %s: %w", name, path, err)
		}
		return nil
	})
}

func (k *Kernel) delNamespace(name string) error {
	path := filepath.Join(k.dir, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount network namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the file of network namespace %s: %w", name, err)
	}
	return nil
}

// A sysctl is of the network namespace of the thread that opens it.
func sysctlPath(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }

func readSysctls() ([]dataplane.Sysctl, error) {
	var list []dataplane.Sysctl
	for _, name := range dataplane.Sysctls {
		value, err := os.ReadFile(sysctlPath(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without that family
		}
		if err != nil {
			return nil, fmt.Errorf("read sysctl %s: %w", name, err)
		}
		list = append(list, dataplane.Sysctl{Name: name, Value: strings.TrimSpace(string(value))})
	}
	return list, nil
}

func setSysctl(s dataplane.Sysctl) error {
	if err := os.WriteFile(sysctlPath(s.Name), []byte(s.Value), 0o644); err != nil {
		return fmt.Errorf("write sysctl: %w", err)
	}
	return nil
}
