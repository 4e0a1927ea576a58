//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
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
	g := &agent{}
	socket := serve(t, g)
	dir := t.TempDir()
	if got := run(t, nil, "", "install", "--to", dir); got != "" {
		t.Fatal(got)
	}
	uninstall := func() string { return run(t, nil, "", "uninstall", "--from", dir, "--socket", socket) }
	attached := func(pods int) {
		g.all = nil
		for i := range pods {
			g.all = append(g.all, cni.Attachment{ID: cni.ID{ContainerID: fmt.Sprint("c", i), Interface: "net1"}, Network: "default.blue", Pod: cni.Pod{Namespace: "default", Name: fmt.Sprint("web-", i)}})
		}
	}
	const refusal = "pod2-cni: pods of this node use the plugin: delete or move them first: "
	attached(2)
	if got, want := uninstall(), refusal+"pod default/web-0 on default.blue, pod default/web-1 on default.blue exit status 1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	attached(11)
	if got, want := uninstall(), "pod default/web-9 on default.blue, and more exit status 1"; !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	attached(0)
	g.fail(fmt.Errorf("broken"))
	if got, want := uninstall(), "pod2-cni: pod2-agent cannot list the pods that use the plugin: broken exit status 1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := files(t, dir); got != "-rwxr-xr-x pod2-cni" {
		t.Errorf("got\n%s", got)
	}
	g.fail(nil)
	for range 2 { // the second finds nothing
		if got := uninstall(); got != "" || files(t, dir) != "" {
			t.Errorf("got %s\n%s", got, files(t, dir))
		}
	}
}

func TestUsage(t *testing.T) {
	const usage = "usage: pod2-cni install --to DIR | pod2-cni uninstall --from DIR [--socket PATH] exit status 1"
	for args, want := range map[string]string{
		"install":                    "pod2-cni: " + usage,
		"install --to":               "pod2-cni: flag needs an argument: -to: " + usage,
		"install --to a b":           "pod2-cni: " + usage,
		"install --from a":           "pod2-cni: flag provided but not defined: -from: " + usage,
		"uninstall":                  "pod2-cni: " + usage,
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
