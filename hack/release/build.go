package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, by their names in Go.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

var allPlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// program of a release.
type program struct {
	name string
	// module and pkg are directories: of the Go module in the checkout, and of the package in it.
	module, pkg string
	// version are the arguments that print the version.
	version []string
	// everywhere is true if it runs on all platforms, not only on nodes.
	everywhere bool
}

var programs = []program{
	{"pod2-controller", ".", ".", []string{"--version"}, false},
	{"pod2-agent", ".", "./cmd/pod2-agent", []string{"--version"}, false},
	{"pod2-cni", ".", "./cmd/pod2-cni", []string{"--version"}, false},
	{"pod2-apiserver", "cmd/pod2-apiserver", ".", []string{"--version"}, false},
	{"kubectl-pod2", ".", "./cmd/kubectl-pod2", []string{"version", "--client"}, true},
}

// release in progress.
type release struct {
	*options
	bin, out string // directories

	licenses map[binary]licenses
	digests  map[string]string // of images, by name
}

// binary is a program for a platform.
type binary struct {
	program string
	platform
}

func (r *release) path(b binary) string {
	name := b.program
	if b.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.bin, b.os+"_"+b.arch, name)
}

// of returns the programs for a platform.
func of(p platform) []program {
	return slices.DeleteFunc(slices.Clone(programs), func(g program) bool { return !g.everywhere && p.os != "linux" })
}

// linux returns the platforms of images.
func (r *release) linux() []platform {
	return slices.DeleteFunc(slices.Clone(r.platforms), func(p platform) bool { return p.os != "linux" })
}

// build all programs. The flags and variables that change a binary are here, not those of the user's environment.
func (r *release) build(ctx context.Context) error {
	for _, p := range r.platforms {
		for _, g := range of(p) {
			fmt.Printf("Building %s for %s ...\n", g.name, p)
			_, err := r.golang(ctx, p, g.module, "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
				"-ldflags=-s -w -X github.com/pod2/pod2/internal/version.release="+r.version, "-o", r.path(binary{g.name, p}), g.pkg)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sources are the variables that say where modules and Go come from, and where they are kept.
var sources = []string{"GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH", "GOTOOLCHAIN", "GOMODCACHE", "GOCACHE"}

// settings of the user that do not change a binary, as variables. GOENV=off turns off the file that
// `go env -w` writes. Without it, the file also replaces an empty variable.
func settings(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"env"}, sources...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	all := []string{"GOENV=off"}
	for i, value := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		all = append(all, sources[i]+"="+value)
	}
	return all, nil
}

// golang runs the go command for a platform in a directory of the checkout.
func (r *release) golang(ctx context.Context, p platform, dir string, args ...string) ([]byte, error) {
	kept, err := settings(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(r.root, dir)
	cmd.Env = append(append(os.Environ(), kept...), "PWD="+cmd.Dir, "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s for %s: %w\n%s", args[0], p, err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// emulators run Linux programs for another architecture. Debian's package qemu-user-static has the first names.
var emulators = map[string][]string{
	"arm64": {"qemu-aarch64-static", "qemu-aarch64"},
	"amd64": {"qemu-x86_64-static", "qemu-x86_64"},
}

// start the programs for Linux once. They print their version.
func (r *release) start(ctx context.Context) error {
	for _, p := range r.linux() {
		var emulator []string
		if p != (platform{runtime.GOOS, runtime.GOARCH}) {
			path := find(emulators[p.arch])
			if path == "" {
				fmt.Printf("The programs for %s were not started: on Linux, install %s (Debian's package qemu-user-static)\n", p, strings.Join(emulators[p.arch], " or "))
				continue
			}
			emulator = []string{path}
		}
		for _, g := range of(p) {
			command := append(append(slices.Clone(emulator), r.path(binary{g.name, p})), g.version...)
			out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
			if err != nil || !slices.Contains(strings.Fields(string(out)), r.version) {
				return fmt.Errorf("%s for %s does not print version %s: %w\n%s", g.name, p, r.version, err, out)
			}
			fmt.Printf("Started %s for %s: %s", g.name, p, out)
		}
	}
	return nil
}

func find(names []string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
