//go:build linux

package node

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/bpf"
)

// The oldest kernel that the programs are tested on (make kernel-matrix).
const oldestMajor, oldestMinor = 6, 1

// supported returns an error on a kernel that lacks a helper of the programs, or that nobody has tried. An untried one could
// lose packets on some path only.
func supported() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("read the version of the kernel: %w", err)
	}
	missing, err := bpf.Missing()
	if err != nil {
		return err
	}
	return check(unix.ByteSliceToString(name.Release[:]), missing)
}

func check(release string, missing []string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("the kernel's release %q does not begin with two numbers: %w", release, err)
	}
	old := major < oldestMajor || major == oldestMajor && minor < oldestMinor
	switch {
	case len(missing) > 0:
		return fmt.Errorf("the data plane needs Linux %d.%d or newer with all features of eBPF: this node has %s, which lacks %s", oldestMajor, oldestMinor, release, strings.Join(missing, ", "))
	case old:
		return fmt.Errorf("the data plane needs Linux %d.%d or newer: this node has %s, which has the features, and nobody has tested it", oldestMajor, oldestMinor, release)
	}
	return nil
}
