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

	"github.com/cilium/ebpf"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/test/bench/measure"
)

// agent is bin/pod2-agent in a node's network namespace. There it finds the API server at
// the same address as on the machine: this program forwards its connections.
type agent struct {
	*measure.Process
	node   *node
	client *http.Client
	places *ebpf.Map // the map that leads to pods
}

func (b *bench) startAgent(ctx context.Context, n *node) {
	n.agent = &agent{node: n, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.tryDial}}}
	server := measure.Must(url.Parse(b.Config.Host)).Host
	go forward(ctx, n.listen(ctx, server), server)
	n.agent.start(ctx, b)
	n.agent.places = measure.Must(ebpf.LoadPinnedMap(measure.Must(filepath.Glob(n.path("bpf/pod2/v*/places")))[0], nil))
}

// start the process, and return once it is ready.
func (g *agent) start(ctx context.Context, b *bench) {
	const health = "127.0.0.1:9751"
	n := g.node
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(b.root, "bin/pod2-agent"), "--kubeconfig="+b.Kubeconfig(), "--node-name="+n.name,
		"--netns-dir="+n.path("netns"), "--bpf-dir="+n.path("bpf/pod2"), "--cni-socket="+n.path("cni/socket"), "--health-probe-bind-address="+health)
	n.do(func() { g.Process = measure.Start(cmd, n.path("agent.log")) })
	measure.WaitReady(ctx, g.client, health, g.Process)
}

func (n *node) cni() cni.Client { return cni.Client{Socket: n.path("cni/socket")} }

// knows says whether the node's programs have an entry for this MAC address.
func (g *agent) knows(vni int32, mac [6]byte) bool {
	key := struct {
		VNI  uint32
		MAC  [6]byte
		Zero uint16
	}{VNI: uint32(vni), MAC: mac}
	return measure.Must(g.places.LookupBytes(key)) != nil
}

func forward(ctx context.Context, proxy net.Listener, server string) {
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
			_, _ = io.Copy(in, out)
		}()
	}
}
