//go:build integration && chaos

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// component is a process of the control plane: etcd or kube-apiserver.
type component struct {
	name, directory string
	args            []string
	process         *os.Process
}

// findComponent finds the process of this cluster by its command line.
func findComponent(t *testing.T, name string) *component {
	t.Helper()
	path := filepath.Join(filepath.Dir(kubeconfig), "control-plane/clusters/pod2/bin", name)
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(line), path+"\x00") {
			continue // it has ended, or is another process
		}
		var id int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &id); err != nil {
			t.Fatal(err)
		}
		process, err := os.FindProcess(id)
		if err != nil {
			t.Fatal(err)
		}
		directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", id))
		if err != nil {
			t.Fatal(err)
		}
		return &component{name, directory, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), process}
	}
	t.Fatalf("no process of %s", path)
	return nil
}

func (c *component) runs() bool { return c.process.Signal(syscall.Signal(0)) == nil }

func (c *component) start() error {
	log, err := os.OpenFile(filepath.Join(c.directory, "logs", c.name+".log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.directory, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process = cmd.Process
	go func() { _ = cmd.Wait() }()
	return nil
}

// supervise restarts processes that end, until the test ends. The scheduler exits when it
// has missed events of a killed API server.
func supervise(t *testing.T, names ...string) {
	t.Helper()
	ended := make(chan struct{})
	components := make([]*component, 0, len(names))
	for _, name := range names {
		components = append(components, findComponent(t, name))
	}
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			for _, c := range components {
				if !c.runs() {
					t.Logf("%s has ended; restarted: %v", c.name, c.start())
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { <-ended })
}

// killAndRestart is kill -9 and the restart by a supervisor. It returns when the API server
// answers again.
func (c *component) killAndRestart(t *testing.T) {
	t.Helper()
	c.kill(t)
	c.restart(t)
	eventually(t, "the API server is ready", func(ctx context.Context) (string, error) {
		if !c.runs() {
			t.Fatalf("%s has exited: see its log", c.name)
		}
		_, err := kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return "", err
	})
}

// kill returns when the process has ended.
func (c *component) kill(t *testing.T) {
	t.Helper()
	if err := c.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("kill %s: %v", c.name, err)
	}
	eventually(t, c.name+" has ended", func(context.Context) (string, error) {
		if c.runs() {
			return "it runs", nil
		}
		return "", nil
	})
}

func (c *component) restart(t *testing.T) {
	t.Helper()
	if err := c.start(); err != nil {
		t.Fatalf("start %s: %v", c.name, err)
	}
}

// flag returns the value of a flag in the command line.
func (c *component) flag(t *testing.T, name string) string {
	t.Helper()
	for _, arg := range c.args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	t.Fatalf("%s has no --%s: %q", c.name, name, c.args)
	return ""
}
