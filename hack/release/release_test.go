package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The manifest of krew has the sum, the platform and the program of each archive. An SBOM is a valid SPDX document of
// all programs and modules.
func TestArchives(t *testing.T) {
	r := newRelease(t, "")
	if err := errors.Join(r.images(t.Context()), r.archives(t.Context()), r.sums(t.Context())); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(text, &plugin); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(r.out, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plugin.Spec.Platforms {
		file := filepath.Base(p.URI)
		if !strings.Contains(string(sums), p.SHA256+"  "+file+"\n") {
			t.Errorf("checksums.txt lacks %s of %s:\n%s", p.SHA256, file, sums)
		}
		if p.URI != "https://example.com/d/v0.2.0/"+file {
			t.Errorf("URI %s", p.URI)
		}
		got = append(got, fmt.Sprintf("%s/%s %s %s", p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"], file, p.Bin))
	}
	if got, want := strings.Join(got, "\n"), `linux/amd64 kubectl-pod2_v0.2.0_linux_amd64.tar.gz kubectl-pod2
linux/arm64 kubectl-pod2_v0.2.0_linux_arm64.tar.gz kubectl-pod2
darwin/amd64 kubectl-pod2_v0.2.0_darwin_amd64.tar.gz kubectl-pod2
darwin/arm64 kubectl-pod2_v0.2.0_darwin_arm64.tar.gz kubectl-pod2
windows/amd64 kubectl-pod2_v0.2.0_windows_amd64.zip kubectl-pod2.exe
windows/arm64 kubectl-pod2_v0.2.0_windows_arm64.zip kubectl-pod2.exe`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	archive, err := os.ReadFile(filepath.Join(r.out, "kubectl-pod2_v0.2.0_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, f := range untar(t, zipped) {
		names += strings.Join(strings.Fields(f)[:2], " ") + ", "
	}
	if want := "kubectl-pod2 755, kubectl_complete-pod2 755, LICENSE 644, licenses/ 755, licenses/example.com/ 755, licenses/example.com/a@v1.0.0/ 755, licenses/example.com/a@v1.0.0/LICENSE 644, "; names != want {
		t.Errorf("the archive has\n%s\nwant\n%s", names, want)
	}

	files, err := filepath.Glob(filepath.Join(r.out, "sbom", "*.spdx.json"))
	if err != nil || len(files) != 12 {
		t.Errorf("%d SBOMs (%v), want 12: of three images for two platforms, and of six archives", len(files), err)
	}
	for _, file := range files {
		doc := readSBOM(t, file)
		var packages []string
		for _, p := range doc.Packages {
			packages = append(packages, p.PackageName+" "+p.PackageVersion+" "+p.PackageLicenseDeclared)
		}
		if got, want := strings.Join(packages[len(packages)-2:], ", "), "example.com/a v1.0.0 MIT, std 1.26.0 BSD-3-Clause"; got != want && !strings.Contains(file, "agent") {
			t.Errorf("%s has %s, want %s", file, got, want)
		}
	}
}

func TestPin(t *testing.T) {
	reference := func(image string) string { return "r/" + image + "@sha256:0" }
	for _, c := range []struct{ text, want, err string }{
		{"  - image: pod2-agent:latest # pinned\n    image:\n      type: string\n", "  - image: r/pod2-agent@sha256:0 # pinned\n    image:\n      type: string\n", ""},
		{"image: pod2-controller:latest", "image: r/pod2-controller@sha256:0", ""},
		{"image: registry.k8s.io/pause:3.10", "image: registry.k8s.io/pause:3.10", ""},
		{"image: pod2-agent:other", "", "images pod2-agent:other are not part of the release"},
		{"image: pod2-new:latest", "", "images pod2-new:latest are not part of the release"},
	} {
		got, err := pin(c.text, reference)
		if got != c.want || fmt.Sprint(err) != c.err && err != nil {
			t.Errorf("%q: got %q, %v; want %q, %s", c.text, got, err, c.want, c.err)
		}
	}
}

func TestChart(t *testing.T) {
	reference := func(image string) string { return "r/" + image + "@sha256:0" }
	values := "image:\n  tag: \"\"\ncontroller:\n  replicas: 2\n  image: \"\"\nagent:\n  image: \"\"\n  mtu: 1500\npolicies:\n  image: \"\"\n"
	want := "image:\n  tag: \"\"\ncontroller:\n  replicas: 2\n  image: r/pod2-controller@sha256:0\nagent:\n  image: r/pod2-agent@sha256:0\n  mtu: 1500\npolicies:\n  image: \"\"\n"
	if got := string(pinValues([]byte(values), reference)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := string(versionChart([]byte("apiVersion: v2\nname: pod2\nversion: 0.1.0\nappVersion: v0.1.0\n"), "v0.2.0")), "apiVersion: v2\nname: pod2\nversion: 0.2.0\nappVersion: v0.2.0\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A module without a license fails a release. A directory with a license of its own adds it.
func TestGather(t *testing.T) {
	dir := t.TempDir()
	mit, err := os.ReadFile("testdata/MIT")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"a/LICENSE": string(mit), "a/pkg/third_party/NOTICE.md": "notice", "a/pkg/license.go": "package pkg", "a/pkg/third_party/deep/x.go": "",
		"b/README": "", "std/LICENSE": "unknown words", "std/src/fmt/print.go": "",
	} {
		at := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	std := pkgModule{Path: "std", Version: "1.26.0", Dir: filepath.Join(dir, "std")}
	a := &pkgModule{Path: "example.com/a", Version: "v1.0.0", Dir: filepath.Join(dir, "a")}
	l, err := gather([]pkg{{Dir: filepath.Join(dir, "a/pkg/third_party/deep"), Module: a}, {Dir: filepath.Join(dir, "a/pkg"), Module: a}, {Dir: filepath.Join(dir, "std/src/fmt"), Standard: true}}, dir, std)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range l.files {
		files = append(files, f.path)
	}
	if got, want := fmt.Sprint(l.modules, files), "[{example.com/a v1.0.0 MIT} {std 1.26.0 NOASSERTION}] "+
		"[licenses/example.com/a@v1.0.0/LICENSE licenses/example.com/a@v1.0.0/pkg/third_party/NOTICE.md licenses/std@1.26.0/LICENSE]"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	b := &pkgModule{Path: "example.com/b", Version: "v1.0.0", Dir: filepath.Join(dir, "b")}
	if _, err := gather([]pkg{{Dir: b.Dir, Module: b}}, dir, std); err == nil || err.Error() != "module example.com/b v1.0.0 has no license file" {
		t.Errorf("without a license: %v", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--version=0.1.0", "--version=0.1.0: must be a semantic version, such as v0.1.0"},
		{"--root=none", "without --version: open none/VERSION: no such file or directory"},
		{"--version=v1.0.0 --registry=https://r", "--registry=https://r: must be a registry with an optional path, such as registry.example.com/pod2"},
		{"--version=v1.0.0 --platforms=linux", "--platforms=linux: must be OS/ARCH, such as linux/arm64"},
		{"--version=v1.0.0 now", `unexpected arguments ["now"]: there are only flags`},
		{"--version=v1.0.0 --out=" + filepath.Dir(file), "--out=" + filepath.Dir(file) + ": this directory is not a release, so it is not replaced"},
	} {
		if err := run(t.Context(), strings.Fields(c.args)); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.args, err, c.want)
		}
	}
}

// The release of the checkout is the version in VERSION.
func TestVersionFile(t *testing.T) {
	o, err := parse([]string{"--root=../.."})
	if err != nil || len(o.platforms) != 6 {
		t.Fatalf("%v, %v", o, err)
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(changes), "\n## ["+strings.TrimPrefix(o.version, "v")+"] - ") {
		t.Errorf("CHANGELOG.md has no section of %s", o.version)
	}
}

// The user's settings do not change a binary, neither those in the environment nor those of `go env -w`.
func TestGoSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("GOFLAGS=-tags=file\nGOEXPERIMENT=fieldtrack\nGOAMD64=v3\nCGO_ENABLED=1\nGOPROXY=https://proxy.example.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", file)
	t.Setenv("GOFLAGS", "-tags=environment")
	out, err := newRelease(t, "").golang(t.Context(), platform{"windows", "arm64"}, ".", "env", "GOOS", "GOARCH", "GOFLAGS", "GOEXPERIMENT", "GOAMD64", "CGO_ENABLED", "GOPROXY")
	if got, want := strings.ReplaceAll(string(out), "\n", " "), "windows arm64   v1 0 https://proxy.example.com "; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// A program of another version fails the release.
func TestStart(t *testing.T) {
	r := newRelease(t, "")
	r.platforms = []platform{{runtime.GOOS, runtime.GOARCH}}
	for _, g := range programs {
		if err := os.WriteFile(r.path(binary{g.name, r.platforms[0]}), []byte("#!/bin/sh\necho "+g.name+" ${X:-v0.2.0}\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.start(t.Context()); err != nil {
		t.Error(err)
	}
	t.Setenv("X", "v0.2.0-dirty")
	if err := r.start(t.Context()); err == nil || !strings.Contains(err.Error(), "pod2-controller for linux/"+runtime.GOARCH+" does not print version v0.2.0") {
		t.Errorf("of another version: %v", err)
	}
}
