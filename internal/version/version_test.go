package version

import (
	"runtime/debug"
	"testing"
)

func TestChoose(t *testing.T) {
	t.Cleanup(func() { release = "" })
	main := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}}
	}
	for _, c := range []struct {
		release string
		info    *debug.BuildInfo
		want    string
	}{
		{"", main("v0.1.0"), "v0.1.0"},
		{"", main("v0.1.1-0.20260101000000-0123456789ab+dirty"), "v0.1.1-0.20260101000000-0123456789ab+dirty"},
		{"", main("(devel)"), "devel"},
		{"", main(""), "devel"},
		{"", nil, "devel"},
		{"v0.2.0", main("v0.1.1-0.20260101000000-0123456789ab"), "v0.2.0"},
		{"v0.2.0", nil, "v0.2.0"},
	} {
		release = c.release
		if got := choose(c.info, c.info != nil); got != c.want {
			t.Errorf("release %q, %v: got %s, want %s", c.release, c.info, got, c.want)
		}
	}
}
