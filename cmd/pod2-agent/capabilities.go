//go:build linux

package main

import (
	"errors"
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
//	                where they outlive the agent; to enter those of pods
const capabilities = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN

// dropCapabilities gives up all others, for good, on every thread: from the bounding set
// too, or a program that root runs would have them again.
func dropCapabilities() error {
	var errs []error
	for c := range unix.CAP_LAST_CAP + 1 {
		if capabilities>>c&1 != 0 {
			continue
		}
		// A kernel that is older than the list does not know the last of it: EINVAL.
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); errno != 0 && errno != unix.EINVAL {
			errs = append(errs, fmt.Errorf("give up capability %d for good: %w", c, errno))
			break
		}
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		errs = append(errs, fmt.Errorf("give up new privileges: %w", errno))
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has, keep [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return errors.Join(append(errs, fmt.Errorf("ask which capabilities there are: %w", err))...)
	}
	keep[0].Permitted = has[0].Permitted & capabilities
	keep[0].Effective = keep[0].Permitted
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&keep[0])), 0); errno != 0 {
		errs = append(errs, fmt.Errorf("give up capabilities: %w", errno))
	}
	return errors.Join(errs...)
}
