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

// Kernel is the kernel of one node.
type Kernel struct {
	host netns.NsHandle // the node's
	dir  string         // of network namespaces: each is mounted on a file with its name
}

// New returns the kernel of the node whose network namespace the process is in. dir holds
// the namespaces of routers and of pods. In /run/netns, `ip netns` finds the routers, and
// container runtimes keep the pods' namespaces.
func New(dir string) (*Kernel, error) { return NewAt("/proc/thread-self/ns/net", dir) }

// NewAt returns the kernel of the node whose network namespace is at that path.
func NewAt(host, dir string) (*Kernel, error) {
	nl.EnableErrorMessageReporting = true // with the kernel's own text
	ns, err := netns.GetFromPath(host)
	if err != nil {
		return nil, fmt.Errorf("open the network namespace of the node, %s: %w", host, err)
	}
	return &Kernel{host: ns, dir: dir}, nil
}

// Close releases the node's namespace.
func (k *Kernel) Close() error { return k.host.Close() }

// open the namespace with this name; "" is the node's. After a crash a file may exist without
// a namespace mounted on it; open returns fs.ErrNotExist for it.
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

// in runs f on a thread that is in the namespace. The thread ends with f.
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
		runtime.LockOSThread() // never unlocked, because no other goroutine may use the thread
		result <- f()
	}()
	return <-result
}

// namespaces of routers, in the order of their names.
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

// addNamespace mounts the namespace, so it outlives this process. netns.NewNamed supports
// only one directory, and fails if a crash left the file.
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

// sysctlPath is a file that shows the sysctl of the network namespace of the thread that
// opens it.
func sysctlPath(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }

func readSysctls() ([]dataplane.Sysctl, error) {
	var list []dataplane.Sysctl
	for _, name := range dataplane.Sysctls {
		value, err := os.ReadFile(sysctlPath(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel lacks that family
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
