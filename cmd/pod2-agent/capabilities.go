//go:build linux

package main

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capabilities are the only two that the agent needs, and the DaemonSet lists:
//
//	CAP_NET_ADMIN   links, addresses, routes, nftables and sysctls below net
//	CAP_SYS_ADMIN   to load programs and pin their maps; to enter the network namespaces of pods
const capabilities = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN

// dropCapabilities drops all others for good, on every thread. It drops them from the
// bounding set too: otherwise a program that root runs would have them again.
func dropCapabilities() error {
	var errs []error
	for c := range unix.CAP_LAST_CAP + 1 {
		if capabilities>>c&1 != 0 {
			continue
		}
		// The DaemonSet gives no others, and then not the capability to drop one.
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil && has == 0 {
			continue
		}
		// A kernel that is older than the list does not know its last ones: EINVAL.
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); errno != 0 && errno != unix.EINVAL {
			errs = append(errs, fmt.Errorf("drop capability %d from the bounding set: %w", c, errno))
			break
		}
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		errs = append(errs, fmt.Errorf("turn off new privileges: %w", errno))
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has, keep [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return errors.Join(append(errs, fmt.Errorf("read the capabilities of this process: %w", err))...)
	}
	keep[0].Permitted = has[0].Permitted & capabilities
	keep[0].Effective = keep[0].Permitted
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&keep[0])), 0); errno != 0 {
		errs = append(errs, fmt.Errorf("drop capabilities: %w", errno))
	}
	return errors.Join(errs...)
}
