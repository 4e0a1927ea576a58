//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
)

// TestMain is also the plugin.
func TestMain(m *testing.M) {
	if os.Getenv("POD2_CNI_IS_THE_PLUGIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// run the plugin as a process, and return its output and its exit code, if that is not 0.
func run(t *testing.T, env []string, stdin string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(self, args...)
	cmd.Env = append([]string{"POD2_CNI_IS_THE_PLUGIN=1"}, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	err = cmd.Run()
	text := strings.Join(strings.Fields(out.String()), " ")
	if err != nil {
		text += " " + err.Error()
	}
	return text
}

// agent is a fake one.
type agent struct {
	mu    sync.Mutex
	calls []string
	err   error
	// addresses that the pod has.
	address netip.Prefix
}

func (g *agent) call(format string, args ...any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, fmt.Sprintf(format, args...))
	return g.err
}

// take returns the calls since the last time.
func (g *agent) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := strings.Join(g.calls, "\n")
	g.calls = nil
	return calls
}

// fail each call from now on.
func (g *agent) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *agent) Add(_ context.Context, a cni.Attachment, netns *os.File) (cni.Result, error) {
	return g.result(a), g.call("Add %+v UID %s, a namespace: %v", a, a.Pod.UID, netns != nil)
}

func (g *agent) Check(_ context.Context, a cni.Attachment, netns *os.File) (cni.Result, error) {
	return g.result(a), g.call("Check %+v UID %s, a namespace: %v", a, a.Pod.UID, netns != nil)
}

func (g *agent) Del(_ context.Context, a cni.Attachment) error {
	return g.call("Del %+v UID %s", a, a.Pod.UID)
}
func (g *agent) Status(context.Context) error { return g.call("Status") }
func (g *agent) GC(_ context.Context, network string, valid []cni.ID) error {
	return g.call("GC %s %v", network, valid)
}

func (g *agent) result(a cni.Attachment) cni.Result {
	return cni.Result{HostInterface: a.HostInterface(), MAC: "0a:58:c0:a8:00:02", MTU: 1450, Address: g.address,
		Gateway: netip.MustParseAddr("192.168.0.1"), Routes: []cni.Route{{Destination: netip.MustParsePrefix("192.168.0.0/15")}}}
}

// socketPath of no agent yet. It is short: a socket's is limited to 107 bytes.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cni")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "cni.sock")
}

// serve until the test ends.
func serve(t *testing.T, h cni.Handler) (socket string) {
	t.Helper()
	socket = socketPath(t)
	l, err := cni.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- (&cni.Server{Handler: h, UID: os.Geteuid()}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket
}
