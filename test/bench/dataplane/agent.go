//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pod2/pod2/test/bench/measure"
)

// agent is bin/pod2-agent in a node's network namespace. There it finds the API server at
// the same address as on the machine. This program forwards its connections, and counts the
// bytes.
type agent struct {
	*measure.Process
	node   *node
	down   atomic.Int64 // bytes from the API server, encrypted
	client *http.Client
}

const (
	metricsAddress = "127.0.0.1:9750"
	healthAddress  = "127.0.0.1:9751"
)

func (b *bench) startAgent(ctx context.Context, n *node) {
	n.agent = &agent{node: n, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.tryDial}}}
	server := measure.Must(url.Parse(b.Config.Host)).Host
	proxy := n.listen(ctx, server)
	go n.agent.forward(ctx, proxy, server)
	n.agent.start(ctx, b)
}

// start the process, and return once it is ready.
func (g *agent) start(ctx context.Context, b *bench) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(b.root, "bin/pod2-agent"), "--kubeconfig="+b.Kubeconfig(), "--node-name="+g.node.name,
		"--netns-dir="+g.node.netnsDir(), "--cni-results="+g.node.cniDir(), "--metrics-bind-address="+metricsAddress, "--health-probe-bind-address="+healthAddress)
	g.node.do(func() { g.Process = measure.Start(cmd, filepath.Join(g.node.dir, "agent.log")) })
	measure.WaitReady(ctx, g.client, healthAddress, g.Process)
}

// end the process; the data plane stays.
func (g *agent) end() {
	if g != nil {
		g.Stop()
	}
}

func (g *agent) forward(ctx context.Context, proxy net.Listener, server string) {
	for {
		in, err := proxy.Accept()
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

// spent is the cost of an agent since its start.
type spent struct {
	cpu                       time.Duration
	bytes, syncs, syncSeconds float64
}

func (g *agent) spent(ctx context.Context) (s spent) {
	s.cpu, s.bytes = g.CPU(), float64(g.down.Load())
	text := measure.Must(measure.Fetch(ctx, g.client, "http://"+metricsAddress+"/metrics"))
	s.syncs, s.syncSeconds = measure.ParseMetrics(text).Histogram("pod2_agent_sync_duration_seconds")
	return s
}
