//go:build linux

package node

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The oldest kernel that the programs are tested on (make kernel-matrix).
const oldestMajor, oldestMinor = 6, 1

// supported returns an error on a kernel that nobody has tried. Without it, a helper that the kernel lacks
// would lose packets on some path only.
func supported() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("read the version of the kernel: %w", err)
	}
	return checkRelease(unix.ByteSliceToString(name.Release[:]))
}

func checkRelease(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("the kernel's release %q does not begin with two numbers: %w", release, err)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return fmt.Errorf("the data plane needs Linux %d.%d or newer, and is not tested on older ones: this node has %s", oldestMajor, oldestMinor, release)
	}
	return nil
}
