//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// TestReadmeCommands types the commands of README.md in order, from the CRDs to their
// removal, in a home and a checkout of its own. It compares the output that README.md shows.
// The controller runs until the end. `.ci/run` runs the make targets, so this test leaves
// them out.
//
// It is not parallel: the controller serves all namespaces, and the CRDs are removed.
func TestReadmeCommands(t *testing.T) {
	needsMutation(t)
	home, checkout := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".kube/config"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"crd", "artifacts"} {
		if err := os.CopyFS(filepath.Join(checkout, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "bin"), filepath.Join(checkout, "bin")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+home, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	shell := func(ctx context.Context, command string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-c", command)
		cmd.Dir, cmd.Env, cmd.WaitDelay = checkout, env, time.Second
		return cmd
	}
	ran := 0
	for _, b := range pageBlocks(t, "README.md") {
		if b.language == "yaml" {
			if err := os.WriteFile(filepath.Join(checkout, b.word), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, s := range b.steps() {
			ran++
			if strings.HasPrefix(s.command, "bin/pod2-controller ") {
				requireUserRoles(t)
				runUntilEnd(t, shell(context.Background(), "exec "+s.command))
				t.Cleanup(func() { removeExample(t) }) // while the controller runs: it removes the finalizers
				restoreCRDs(t)
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			out, err := shell(ctx, s.command).CombinedOutput()
			if cancel(); err != nil {
				t.Fatalf("%s: %v\n%s", s.command, err, out)
			}
			if b.language == "console" && plain(string(out)) != plain(s.output) {
				t.Errorf("$ %s\ngot\n%s\nwant\n%s", s.command, out, s.output)
			}
			t.Logf("$ %s\n%s", s.command, out)
		}
	}
	if ran < 12 {
		t.Errorf("README.md has only %d commands", ran)
	}
	installation.there = false // no test runs in parallel with this one
	if left := run(t, "", "get", "crds,clusterroles,mutatingadmissionpolicies,validatingadmissionpolicies", "-o", "name"); strings.Contains(left, "samplecrd") || strings.Contains(left, "pod2") {
		t.Errorf("after the last command there is still\n%s", left)
	}
}

// requireUserRoles requires that the namespace roles `edit` and `view`, once they are
// aggregated, allow their intended requests.
func requireUserRoles(t *testing.T) {
	t.Helper()
	ns := newNamespace(t)
	kinds := []string{"networks.samplecrd.k8s.io", "pod2s.samplecrd.k8s.io", "crontabs.stable.example.com"}
	for role, allowed := range map[string]string{"edit": "create delete patch list", "view": "list watch"} {
		run(t, ns, "create", "rolebinding", role, "--clusterrole="+role, "--user="+role)
		for _, verb := range strings.Fields(allowed) {
			for _, kind := range kinds {
				eventually(t, fmt.Sprintf("a user with the role %s may %s %s", role, verb, kind), func(context.Context) (string, error) {
					return "", ignoreOutput(kubectl("-n", ns, "auth", "can-i", verb, kind, "--as="+role))
				})
			}
		}
	}
}

func ignoreOutput(out string, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// runUntilEnd starts the controller and waits until its log says that it has started.
func runUntilEnd(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	log := &logBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // `go run` has a child
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait() // `go run` turns a signal into its own failure
	})
	eventually(t, "the controller starts", func(context.Context) (string, error) {
		if !strings.Contains(log.String(), "Controller started") {
			return "it says\n" + tail(log.String(), 5), nil
		}
		return "", nil
	})
}

func removeExample(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"annotate", "networks.samplecrd.k8s.io", "--all", "--overwrite", v1.AllowDeletionAnnotation + "=true"},
		{"delete", "--ignore-not-found", "--timeout=" + patience.String(), "-f", filepath.Join(root, "example")},
		{"delete", "--ignore-not-found", "--timeout=" + patience.String(), "namespace", "pod2-system"},
	} {
		if out, err := kubectl(args...); err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// pageBlock is a block of code in a page: a manifest, commands, or commands with their output.
// The word after its language is the name of a file, or says why no test runs it.
type pageBlock struct{ language, word, text string }

// pageStep is a command, with the output that the page shows.
type pageStep struct{ command, output string }

// steps returns the commands of a block, without those of make.
func (b pageBlock) steps() (steps []pageStep) {
	if b.language == "console" {
		for _, part := range regexp.MustCompile(`(?m)^\$ `).Split(b.text, -1)[1:] {
			command, output, _ := strings.Cut(part, "\n")
			steps = append(steps, pageStep{command, output})
		}
		return steps
	}
	for line := range strings.Lines(b.text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "make ") {
			steps = append(steps, pageStep{command: line})
		}
	}
	return steps
}

// pageBlocks returns the blocks of a page that have a manifest or commands, in order.
func pageBlocks(t *testing.T, file string) (blocks []pageBlock) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile("(?ms)^```(yaml|sh|console) ?(\\S*)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, pageBlock{match[1], match[2], match[3]})
	}
	return blocks
}
