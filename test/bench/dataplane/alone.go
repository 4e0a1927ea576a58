//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/kernel"
)

// alone is the agent of one node without its watch: what it does is done by its own code,
// a part after the other, so that each can be timed.
type alone struct {
	lab    *lab
	node   *node
	kernel *kernel.Kernel
	state  dataplane.State
}

func newAlone(dir string) (*alone, error) {
	l, err := newLab(dir, 1)
	if err != nil {
		return nil, err
	}
	n := l.nodes[0]
	k, err := n.kernel()
	if err != nil {
		l.close()
		return nil, err
	}
	return &alone{lab: l, node: n, kernel: k, state: dataplane.State{
		Node: n.name, UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16"),
		Nodes: append([]dataplane.Node{{Name: n.name, Addresses: []netip.Addr{n.ip}}}, far...)}}, nil
}

// close removes what the agent made: a router is a mount, which would outlive us.
func (a *alone) close() error {
	defer a.lab.close()
	return errors.Join(a.kernel.Close(), removeAll(a.node))
}

// join puts a pod of the node on the Network.
func (a *alone) join(n network, ip string) {
	a.state.Networks = append(a.state.Networks, n.declared())
	address := netip.MustParseAddr(ip)
	p := &pod{namespace: &namespace{name: "on-" + n.name}, network: n, ip: address, mac: macOf(address), node: a.node}
	a.state.Pods = append(a.state.Pods, p.declared())
}

// decide as the agent does, and say how long that took.
func (a *alone) decide() (plan dataplane.Plan, read, took time.Duration, err error) {
	begin := time.Now()
	if a.state.Host, err = a.kernel.Read(); err != nil {
		return nil, 0, 0, err
	}
	done := time.Now()
	want, report, ok := dataplane.Want(a.state)
	if !ok || len(report.Problems) > 0 {
		return nil, 0, 0, fmt.Errorf("problems: %s", report.Problems)
	}
	plan = dataplane.Diff(a.state.Host, want)
	return plan, done.Sub(begin), time.Since(done), nil
}

func (a *alone) apply(plan dataplane.Plan) (time.Duration, error) {
	begin := time.Now()
	if done, err := a.kernel.Perform(plan); err != nil {
		return 0, fmt.Errorf("%d of %d steps: %w", len(done), len(plan), err)
	}
	return time.Since(begin), nil
}

// sync decides and applies, and says how long the latter took.
func (a *alone) sync() (applied time.Duration, err error) {
	plan, _, _, err := a.decide()
	if err != nil {
		return 0, err
	}
	return a.apply(plan)
}

// rest is a sync that has nothing to do.
func (a *alone) rest() (read, decided time.Duration, err error) {
	plan, read, decided, err := a.decide()
	if err == nil && len(plan) > 0 {
		err = fmt.Errorf("%d steps are left", len(plan))
	}
	return read, decided, err
}
