//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files of a directory, with their modes.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Mode().String()+" "+e.Name())
	}
	return strings.Join(names, "\n")
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"bridge": "another plugin", ".pod2-cni-1": "half of a binary", "pod2-cni": "the last release"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.Open(filepath.Join(dir, "pod2-cni"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if got := run(t, nil, "", "install", "--to", dir); got != "" {
		t.Fatal(got)
	}
	if got, want := files(t, dir), "-rw------- bridge\n-rwxr-xr-x pod2-cni"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	self, _ := os.Executable()
	want, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "pod2-cni")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("another binary is installed: %v", err)
	}
	// A process that runs the old file still has all of it.
	text := make([]byte, 100)
	if n, err := old.Read(text); err != nil || string(text[:n]) != "the last release" {
		t.Errorf("the old binary is now %q, %v", text[:n], err)
	}
}

// A failed installation leaves nothing.
func TestInstallFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pod2-cni", "in use"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := run(t, nil, "", "install", "--to", dir); !strings.Contains(got, "pod2-cni: install: rename ") || !strings.HasSuffix(got, "file exists exit status 1") {
		t.Errorf("got %s", got)
	}
	if got := files(t, dir); got != "drwxr-xr-x pod2-cni" {
		t.Errorf("got\n%s", got)
	}
}

func TestUninstall(t *testing.T) {
	dir := t.TempDir()
	if got := run(t, nil, "", "install", "--to", dir); got != "" {
		t.Fatal(got)
	}
	for range 2 { // the second finds nothing
		if got := run(t, nil, "", "uninstall", "--from", dir); got != "" || files(t, dir) != "" {
			t.Errorf("got %s\n%s", got, files(t, dir))
		}
	}
}

func TestUsage(t *testing.T) {
	const usage = "usage: pod2-cni install --to DIR | pod2-cni uninstall --from DIR exit status 1"
	for args, want := range map[string]string{
		"install":                    "pod2-cni: " + usage,
		"install --to":               "pod2-cni: flag needs an argument: -to: " + usage,
		"install --to a b":           "pod2-cni: " + usage,
		"install --from a":           "pod2-cni: flag provided but not defined: -from: " + usage,
		"uninstall":                  "pod2-cni: " + usage,
		"uninstall --to a":           "pod2-cni: flag provided but not defined: -to: " + usage,
		"remove":                     `pod2-cni: unknown command "remove": ` + usage,
		"install --to /no/such/path": "pod2-cni: the directory of CNI plugins: open /no/such/path: no such file or directory exit status 1",
	} {
		if got := run(t, nil, "", strings.Fields(args)...); got != want {
			t.Errorf("%s: got  %s\nwant %s", args, got, want)
		}
	}
	if got, want := run(t, nil, ""), "CNI plugin pod2-cni: install it with pod2-cni install --to DIR CNI protocol versions supported: 0.4.0, 1.0.0, 1.1.0"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
