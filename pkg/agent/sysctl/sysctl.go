//go:build linux

// Package sysctl reads and writes sysctls of the network namespace of the calling thread.
package sysctl

import (
	"os"
	"path/filepath"
	"strings"
)

// Mounted is where the DaemonSet mounts /proc/sys/net of the node. In a container that is
// not privileged, /proc/sys is read-only, and this mount is not.
const Mounted = "/host/proc/sys/net"

// Read a sysctl, such as net/ipv4/ip_forward, without spaces around the value. The error is
// fs.ErrNotExist if the kernel lacks it.
func Read(name string) (string, error) {
	value, err := os.ReadFile(filepath.Join("/proc/sys", name))
	return strings.TrimSpace(string(value)), err
}

// Write a sysctl below net.
func Write(name, value string) error {
	return write(Mounted, name, value)
}

func write(mounted, name, value string) error {
	path := filepath.Join("/proc/sys", name)
	if _, err := os.Stat(mounted); err == nil {
		path = filepath.Join(mounted, strings.TrimPrefix(name, "net/"))
	}
	return os.WriteFile(path, []byte(value), 0o644)
}
