//go:build linux

package main

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capabilities are those that the agent needs, of the many that a privileged container
// has:
//
//	CAP_NET_ADMIN   links, addresses, routes, neighbours, bridges, nftables and sysctls below net
//	CAP_SYS_ADMIN   to enter the routers' network namespaces, make them, and mount them
//	                where they outlive the agent
const capabilities = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN

// dropCapabilities gives up all others, for good, on every thread.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return fmt.Errorf("ask which capabilities there are: %w", err)
	}
	keep := [2]unix.CapUserData{}
	keep[0].Permitted = has[0].Permitted & capabilities
	keep[0].Effective = keep[0].Permitted
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&keep[0])), 0); errno != 0 {
		return fmt.Errorf("give up capabilities: %w", errno)
	}
	return nil
}
