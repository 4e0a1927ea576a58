//go:build integration

package integration

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// What README.md says to type on one's own cluster is typed here, in a home of
// its own, in order; the controller runs until the end. `make` targets are run by
// .ci/run, which this is a part of.
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
	ran := 0
	for _, command := range readmeCommands(t) {
		cmd := exec.Command("bash", "-c", "exec "+command)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "HOME="+home, "GOCACHE="+goEnv(t, "GOCACHE"), "GOPATH="+goEnv(t, "GOPATH"),
			"GOFLAGS=-buildvcs=false", "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
		ran++
		if strings.HasPrefix(command, "go run .") {
			runUntilEnd(t, cmd)
			t.Cleanup(func() { removeExample(t) }) // before the controller ends: it lifts the finalizers
			continue
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	if ran < 5 {
		t.Errorf("found only %d commands in README.md", ran)
	}
}

// runUntilEnd starts the controller and waits until it says that it works.
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
		_ = cmd.Wait() // go run answers a signal with a failure of its own
	})
	eventually(t, "the controller starts", func(context.Context) (string, error) {
		if !strings.Contains(log.String(), "Controller started") {
			return tail(log.String(), 5), nil
		}
		return "", nil
	})
}

func removeExample(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"delete", "--ignore-not-found", "--timeout=" + patience.String(), "-f", filepath.Join(root, "example")},
		{"delete", "--ignore-not-found", "--timeout=" + patience.String(), "namespace", "pod2-system"},
	} {
		if out, err := kubectl(args...); err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// readmeCommands are the lines of its sh blocks, but for make's.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		lines := bufio.NewScanner(strings.NewReader(block[1]))
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), "make ") {
				commands = append(commands, lines.Text())
			}
		}
	}
	return commands
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(fmt.Errorf("go env %s: %w", name, err))
	}
	return strings.TrimSpace(string(out))
}
