//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/attachment"
)

func stringsReader(s string) io.Reader { return strings.NewReader(s) }

// patience is the limit of every wait; longer is a failure. Beside the other tests of a slow machine of two cores, some
// waits take two minutes.
const patience = 4 * time.Minute

// newNamespace creates a namespace that is swept after the test, and waits until pods can
// be created in it.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sweep(context.Background(), ns.Name); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the default service account of "+ns.Name, func(ctx context.Context) (string, error) {
		_, err := kube.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return "", err
	})
	return ns.Name
}

// eventually polls until check returns "" and no error. It fails with the last answer after
// patience.
func eventually(t *testing.T, what string, check func(context.Context) (string, error)) {
	t.Helper()
	within(t, patience, what, check)
}

// sweepAfter sweeps a namespace that the test creates itself.
func sweepAfter(t *testing.T, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		if err := sweep(context.Background(), namespace); err != nil {
			t.Error(err)
		}
	})
}

func within(t *testing.T, limit time.Duration, what string, check func(context.Context) (string, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for {
		why, err := check(ctx)
		if why == "" && err == nil && ctx.Err() == nil { // a check that ignores the end of ctx may find nothing wrong
			return
		}
		if ctx.Err() == nil {
			last = why
			if err != nil {
				last = err.Error()
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s; last answer: %s", what, limit, last)
		case <-tick.C:
		}
	}
}

// controller is a running pod2-controller.
type controller struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     *logBuffer
	stopped chan struct{}
	err     error
}

// startController runs the binary for one namespace, and stops it gracefully at the end of
// the test. It fails the test if the controller panicked or had a data race.
func startController(t *testing.T, namespace string, flags ...string) *controller {
	t.Helper()
	return startControllerWith(t, namespace, nil, flags...)
}

// startControllerWith is startController with additional environment variables.
func startControllerWith(t *testing.T, namespace string, env []string, flags ...string) *controller {
	t.Helper()
	c := &controller{t: t, log: &logBuffer{}, stopped: make(chan struct{})}
	args := append([]string{"--kubeconfig", kubeconfig, "--namespace", namespace,
		"--metrics-bind-address=0", "--health-probe-bind-address=0"}, flags...)
	c.cmd = exec.Command(binary(), args...)
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start the controller (run `make build` first): %v", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.stopped)
	}()
	t.Cleanup(func() {
		_ = c.stop(syscall.SIGTERM) // tests of the exit status call stop themselves
		log := c.log.String()
		for _, bad := range []string{"panic", "DATA RACE"} {
			if strings.Contains(log, bad) {
				t.Errorf("the controller's log has %q", bad)
			}
		}
		if t.Failed() {
			t.Logf("log of the controller of %s:\n%s", namespace, tail(log, 25))
		}
	})
	return c
}

// binary returns the controller under test; `make race` uses another one.
func binary() string {
	if path := os.Getenv("POD2_CONTROLLER"); path != "" {
		return path
	}
	return filepath.Join(root, "bin/pod2-controller")
}

// stop sends the signal, waits until the process ends, and returns its result. SIGKILL is
// kill -9.
func (c *controller) stop(signal syscall.Signal) error {
	select {
	case <-c.stopped:
		return c.err
	default:
	}
	if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("signal the controller: %v", err)
	}
	select {
	case <-c.stopped:
	case <-time.After(patience):
		c.t.Errorf("the controller did not end within %s after %s", patience, signal)
		_ = c.cmd.Process.Kill()
		<-c.stopped
	}
	return c.err
}

// logBuffer collects a process's output, and tests can read it meanwhile.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// create creates the objects of a manifest in a namespace.
func create(t *testing.T, namespace, manifest string) {
	t.Helper()
	if out, err := kubectlWith(t.Context(), manifest, "create", "-n", namespace, "-f", "-"); err != nil {
		t.Fatalf("create: %v\n%s\n%s", err, out, manifest)
	}
}

// run runs kubectl in a namespace and returns its output.
func run(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := kubectl(append([]string{"-n", namespace}, args...)...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// refused runs kubectl with a manifest and returns the API server's refusal.
func refused(t *testing.T, namespace, manifest string, args ...string) string {
	t.Helper()
	out, err := kubectlWith(t.Context(), manifest, append([]string{"-n", namespace}, args...)...)
	if err == nil {
		t.Fatalf("kubectl %s was not refused: %s\n%s", strings.Join(args, " "), out, manifest)
	}
	return typeOfValue.ReplaceAllString(out, "Invalid value: ")
}

// waitEvent waits until the events that a field selector selects say the text. Events follow the condition.
func waitEvent(t *testing.T, namespace, selector, text string) {
	t.Helper()
	eventually(t, "an event says "+text, func(context.Context) (string, error) {
		if events := run(t, namespace, "get", "events", "--field-selector="+selector, "-o", "jsonpath={.items[*].message}"); !strings.Contains(events, text) {
			return "events say " + events, nil
		}
		return "", nil
	})
}

// typeOfValue is in messages about CEL rules of API servers before 1.36.
//
//	spec.gateway: Invalid value: "object": gateway is immutable
var typeOfValue = regexp.MustCompile(`Invalid value: "(object|array|string|integer)": `)

// addresses returns the published addresses of a namespace's live pods (ungated, neither
// terminated nor deleted): {"web-0": "blue=10.0.0.2/24 green=..."}.
func addresses(t *testing.T, namespace string) map[string]string {
	t.Helper()
	pods, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if attachment.Gated(pod) || attachment.Over(pod) {
			continue
		}
		published := attachment.Published(pod)
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(published)) {
			parts = append(parts, fmt.Sprintf("%s=%s", name, published[name].Address))
		}
		result[pod.Name] = strings.Join(parts, " ")
	}
	return result
}

// requireUnique checks S1: no two live pods hold one address of one Network.
func requireUnique(t *testing.T, namespace string) {
	t.Helper()
	if why := sharedAddress(listPods(t, namespace)); why != "" {
		t.Error(why)
	}
}

// waitReady waits for the Ready condition of objects, like a user.
func waitReady(t *testing.T, namespace string, objects ...string) {
	t.Helper()
	for _, object := range objects {
		out, err := kubectl("-n", namespace, "wait", "--for=condition=Ready", "--timeout="+patience.String(), object)
		if err != nil {
			t.Fatalf("%s does not become Ready: %s\n%s", object, out, run(t, namespace, "get", object, "-o", "yaml"))
		}
	}
}

// render prints one line for each key, sorted.
func render(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, strings.TrimSpace(key+": "+m[key]))
	}
	return strings.Join(lines, "\n")
}
