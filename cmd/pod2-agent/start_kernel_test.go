//go:build linux && kernel

package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/kernel"
)

// A node that does not refuse sockets past the programs says so while the API server is away, and nothing about the cluster.
// A directory in the place of the program lets each kernel be such a node.
func TestProblemsAreLoggedWithoutTheAPIServer(t *testing.T) {
	dir := bpffs(t)
	p, err := bpf.Load(dir)
	must(t, err)
	p.Close()
	layouts, err := filepath.Glob(filepath.Join(dir, "v*"))
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(layouts[0], "no_bypass_next", "x"), 0o700))
	runtime.LockOSThread() // the thread is in the node's namespace and ends with the test
	ns, err := netns.New()
	must(t, err)
	t.Cleanup(func() { _ = ns.Close() })
	o, err := parseOptions([]string{"--node-name=n1", "--master=http://127.0.0.1:1", "--bpf-dir=" + dir, "--cni-socket=" + filepath.Join(t.TempDir(), "cni", "cni.sock"),
		"--metrics-bind-address=0", "--health-probe-bind-address=0"})
	must(t, err)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	log := func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
	ctx, stop := context.WithTimeout(klog.NewContext(t.Context(), logger), 10*time.Second)
	defer stop()
	go func() {
		for ctx.Err() == nil && !strings.Contains(log(), "Listing and watching") {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
	}()
	must(t, run(ctx, kernel.New(t.TempDir()), o))
	if got := log(); !strings.Contains(got, "may send past the eBPF programs") || strings.Contains(got, "the Node has no address") {
		t.Errorf("got\n%s", got)
	}
}
