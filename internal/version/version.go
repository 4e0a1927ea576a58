// Package version has the version of the running program.
package version

import "runtime/debug"

// release is set by the linker in builds of `make release`, and empty in others.
var release string

// String is the version of a release, such as v0.1.0. In other builds it is the version that
// the go command recorded: a tag, or a pseudo-version with the commit, with "+dirty" if the
// tree had changes. It is "devel" if none was recorded (go run).
func String() string { return choose(debug.ReadBuildInfo()) }

func choose(info *debug.BuildInfo, ok bool) string {
	switch {
	case release != "":
		return release
	case !ok || info.Main.Version == "" || info.Main.Version == "(devel)":
		return "devel"
	}
	return info.Main.Version
}
