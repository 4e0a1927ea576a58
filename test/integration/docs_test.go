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

// The test runs the commands of README.md for a user's own cluster, from the CRDs to their
// removal, with a separate home directory. The controller runs until the end. This test is
// a part of .ci/run, which runs the `make` targets.
//
// Not parallel: the controller serves all namespaces, and the CRDs are removed.
func TestReadmeCommands(t *testing.T) {
	home := t.TempDir()
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
	env := append(os.Environ(), "HOME="+home, "GOCACHE="+goEnv(t, "GOCACHE"), "GOPATH="+goEnv(t, "GOPATH"),
		"GOFLAGS=-buildvcs=false", "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	shell := func(ctx context.Context, command string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-c", command)
		cmd.Dir, cmd.Env, cmd.WaitDelay = root, env, time.Second
		return cmd
	}
	ran := 0
	for _, command := range readmeCommands(t) {
		ran++
		if strings.HasPrefix(command, "go run .") {
			requireUserRoles(t)
			runUntilEnd(t, shell(context.Background(), command))
			t.Cleanup(func() { removeExample(t) }) // before the controller ends, because it removes the finalizers
			restoreCRDs(t)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := shell(ctx, command).CombinedOutput()
		if cancel(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		t.Logf("$ %s\n%s", command, out)
	}
	if ran < 12 {
		t.Errorf("README.md has only %d commands", ran)
	}
	installation.there = false // no test runs in parallel with this one
	if left := run(t, "", "get", "crds,clusterroles,mutatingadmissionpolicies,validatingadmissionpolicies", "-o", "name"); strings.Contains(left, "samplecrd") || strings.Contains(left, "pod2") {
		t.Errorf("after the uninstallation, these objects remain\n%s", left)
	}
}

// The manifests of README.md work unchanged, all together.
func TestReadmeManifests(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	for _, manifest := range readmeBlocks(t, "yaml") {
		if strings.Contains(manifest, "\nkind: ") {
			create(t, ns, manifest)
		}
	}
	waitReady(t, ns, "network/blue", "network/green", "pod2/web", "crontab/report")
	if got := addresses(t, ns)["web-1"]; !strings.HasSuffix(got, " green=10.1.0.11/24") {
		t.Errorf("web-1 has %s", got)
	}
	run(t, ns, "delete", "crontab", "report", "--timeout="+patience.String())
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

// readmeCommands returns the lines of its sh blocks, without those of make.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	var commands []string
	for _, block := range readmeBlocks(t, "sh") {
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "make ") {
				commands = append(commands, strings.TrimSpace(line))
			}
		}
	}
	return commands
}

func readmeBlocks(t *testing.T, language string) (blocks []string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(fmt.Errorf("go env %s: %w", name, err))
	}
	return strings.TrimSpace(string(out))
}
