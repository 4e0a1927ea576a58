//go:build linux

package node

import "testing"

func TestOldKernelsAreRefused(t *testing.T) {
	const older = "the data plane needs Linux 6.1 or newer, and is not tested on older ones: this node has "
	for release, want := range map[string]string{
		"6.1.0-56-cloud-amd64": "",
		"6.18.44":              "",
		"7.0.1":                "",
		"6.0.19":               older + "6.0.19",
		"5.15.0-generic":       older + "5.15.0-generic",
		"six.one":              `the kernel's release "six.one" does not begin with two numbers: expected integer`,
	} {
		got := ""
		if err := checkRelease(release); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", release, got, want)
		}
	}
}
