//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// agent is bin/pod2-agent at work in a node's network namespace, where it finds the API
// server at the address at which that listens on the machine: what it sends there goes
// through us, who count the bytes.
type agent struct {
	node   *node
	cmd    *exec.Cmd
	proxy  net.Listener
	down   atomic.Int64 // bytes from the API server, as TLS has them
	client *http.Client
}

const (
	metricsAddress = "127.0.0.1:9750"
	healthAddress  = "127.0.0.1:9751"
)

func (a *api) startAgent(ctx context.Context, n *node) error {
	g := &agent{node: n}
	n.agent = g
	g.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.dial}}
	server, err := url.Parse(a.config.Host)
	if err != nil {
		return fmt.Errorf("read the address of the API server: %w", err)
	}
	if g.proxy, err = n.listen(ctx, server.Host); err != nil {
		return err
	}
	go g.forward(ctx, server.Host)
	return g.start(ctx, a)
}

// start the process, and return once it is ready.
func (g *agent) start(ctx context.Context, a *api) error {
	log, err := os.OpenFile(filepath.Join(g.node.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	g.cmd = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(a.root, "bin/pod2-agent"), "--kubeconfig="+a.kubeconfig(), "--node-name="+g.node.name,
		"--netns-dir="+g.node.netnsDir(), "--cni-results="+g.node.cniDir(), "--metrics-bind-address="+metricsAddress, "--health-probe-bind-address="+healthAddress)
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.node.do(g.cmd.Start); err != nil {
		return fmt.Errorf("start an agent: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return g.get(ctx, "http://"+healthAddress+"/readyz", io.Discard) == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the agent of %s to be ready: %w; its log is in %s", g.node.name, err, log.Name())
	}
	return nil
}

// end the process; what it made stays.
func (g *agent) end() {
	if g == nil {
		return
	}
	if g.cmd != nil && g.cmd.Process != nil {
		_ = g.cmd.Process.Signal(syscall.SIGTERM)
		_ = g.cmd.Wait()
	}
	g.cmd = nil
}

func (g *agent) stop() {
	if g == nil {
		return
	}
	g.end()
	if g.proxy != nil {
		_ = g.proxy.Close()
	}
}

func (g *agent) forward(ctx context.Context, server string) {
	for {
		in, err := g.proxy.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := new(net.Dialer).DialContext(ctx, "tcp", server)
			if err != nil {
				return
			}
			defer out.Close()
			go func() {
				_, _ = io.Copy(out, in)
				_ = out.Close()
			}()
			_, _ = io.Copy(io.MultiWriter(in, counter{&g.down}), out)
		}()
	}
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

func (g *agent) get(ctx context.Context, address string, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := g.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(to, response.Body)
	return err
}

// metric is the sum of the samples of that name.
func (g *agent) metric(ctx context.Context, name string) (float64, error) {
	var b bytes.Buffer
	if err := g.get(ctx, "http://"+metricsAddress+"/metrics", &b); err != nil {
		return 0, fmt.Errorf("read the metrics of the agent of %s: %w", g.node.name, err)
	}
	return sum(b.String(), name)
}

// sum adds up the samples of that name in the text format of Prometheus.
func sum(text, name string) (total float64, err error) {
	found := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		total, found = total+value, true
	}
	if !found {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return total, nil
}

// ticksPerSecond is USER_HZ, which Linux has on every architecture of Go's.
const ticksPerSecond = 100

// cpuOf is the time that a process has computed: proc(5), stat 14 and 15.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read what the process computed: %w", err)
	}
	// The name, in parentheses, may have spaces.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	return time.Duration(user+system) * time.Second / ticksPerSecond, nil
}

// peakOf is the most memory of a process that was ever resident, in bytes.
func peakOf(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of the process: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kib)[0], 64)
			return n * 1024, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in /proc/%d/status", pid)
}
