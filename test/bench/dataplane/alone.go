//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/kernel"
	"github.com/pod2/pod2/test/bench/measure"
)

// alone is the agent of one node without its watch. It runs the agent's own code part by
// part, so each part can be timed.
type alone struct {
	lab     *lab
	node    *node
	kernel  *kernel.Kernel
	state   dataplane.State
	unruled bool // links and entries, without rules
}

func newAlone(dir string) *alone {
	l := newLab(dir, 1)
	n := l.nodes[0]
	return &alone{lab: l, node: n, kernel: n.kernel(), state: dataplane.State{
		Node: n.name, UDPPort: 4789, VXLANReversePathFilter: true, Transit: netip.MustParsePrefix("100.64.0.0/16"),
		Nodes: append([]dataplane.Node{{Name: n.name, Addresses: []netip.Addr{n.ip}}}, far...)}}
}

// close removes the agent's things: a router is a mount, which would outlive this process.
func (a *alone) close() {
	defer a.lab.close()
	measure.Cleanup(func() {
		measure.Check(a.kernel.Close())
		removeAll(a.node)
	})
}

// join puts a pod of the node on the Network.
func (a *alone) join(n dataplane.Network, ip string) {
	a.state.Networks = append(a.state.Networks, n)
	address := netip.MustParseAddr(ip)
	p := &pod{namespace: &namespace{name: "on-" + n.Name}, network: n, ip: address, node: a.node}
	a.state.Pods = append(a.state.Pods, p.declared())
}

// decide as the agent does, and return how long that took.
func (a *alone) decide() (plan dataplane.Plan, read, took time.Duration) {
	begin := time.Now()
	a.state.Host = measure.Must(a.kernel.Read())
	done := time.Now()
	want := wanted(a.state)
	for i := range want {
		if a.unruled {
			want[i].Tables = nil
		}
	}
	plan = dataplane.Diff(a.state.Host, want)
	return plan, done.Sub(begin), time.Since(done)
}

func (a *alone) apply(plan dataplane.Plan) time.Duration {
	begin := time.Now()
	measure.Must(a.kernel.Perform(plan))
	return time.Since(begin)
}

// sync decides and applies, and returns how long it took to apply.
func (a *alone) sync() time.Duration {
	plan, _, _ := a.decide()
	return a.apply(plan)
}

// rest is a sync without work.
func (a *alone) rest() (read, decided time.Duration) {
	plan, read, decided := a.decide()
	if len(plan) > 0 {
		measure.Check(fmt.Errorf("%d steps are left", len(plan)))
	}
	return read, decided
}

// far are nodes that exist only by name.
var far = []dataplane.Node{
	{Name: "far1", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.1")}},
	{Name: "far2", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.2")}},
}

// remoteIP is the address of the i-th pod of another node.
func remoteIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 1 + byte(i>>16), byte(i >> 8), byte(i)})
}

// big is the Network of the remote pods.
func big() dataplane.Network { return newNetwork("big", 1002, "10.0.0.0/8") }

func remotePods(network string, many int) []dataplane.Pod {
	pods := make([]dataplane.Pod, many)
	for i := range pods {
		ip := remoteIP(i)
		pods[i] = dataplane.Pod{Namespace: space, Name: fmt.Sprint("far-", i), UID: types.UID(fmt.Sprint("far-", i)), Node: "far1",
			Attachments: []dataplane.Attachment{{Network: network, IP: ip, MAC: macOf(ip)}}}
	}
	return pods
}

// measureEntries adds so many pods of other nodes to a node that had none, and then moves
// half of them.
func (b *bench) measureEntries(many int) measure.Results {
	a := newAlone(filepath.Join(b.dir, fmt.Sprint("entries-", many)))
	defer a.close()
	a.join(big(), "10.0.0.2")
	a.sync() // makes links and router, so only the pods are measured
	a.state.Pods = append(a.state.Pods, remotePods("big", many)...)
	plan, _, decided := a.decide()
	if len(plan) != entriesOf(many) {
		measure.Check(fmt.Errorf("%d steps for %d pods", len(plan), many))
	}
	programmed := a.apply(plan)
	read, compared := a.rest()
	for i := 1; i < len(a.state.Pods); i += 2 {
		a.state.Pods[i].Node = far[1].Name
	}
	moved := a.sync()
	r := measure.Results{}
	for _, part := range []struct {
		name string
		took time.Duration
	}{
		{"decided", decided}, {"programmed", programmed}, {"moved", moved}, {"resync", read + compared}, {"read", read}, {"compared", compared},
		{"elsewhere", elsewhere(a.state, many)},
	} {
		r.Add(measure.Milliseconds(part.took), many, part.name)
	}
	r.Add(float64(entriesOf(many))/programmed.Seconds(), many, "a second")
	return r
}

// elsewhere is the extra time of a decision if there are as many pods again on a Network
// that is not on this node.
func elsewhere(s dataplane.State, many int) time.Duration {
	took := func() time.Duration {
		begin := time.Now()
		wanted(s)
		return time.Since(begin)
	}
	without := took()
	s.Networks = append(s.Networks, newNetwork("elsewhere", 9, "10.0.0.0/8"))
	s.Pods = append(s.Pods, remotePods("elsewhere", many)...)
	return max(0, took()-without)
}

func wanted(s dataplane.State) dataplane.Host {
	want, report, ok := dataplane.Want(s)
	if !ok || len(report.Problems) > 0 {
		measure.Check(fmt.Errorf("problems: %s", report.Problems))
	}
	return want
}

// measureNetworks lets a node join so many Networks with one CIDR, each with a pod: links,
// router and rules.
func (b *bench) measureNetworks(many int) measure.Results {
	a := newAlone(filepath.Join(b.dir, fmt.Sprint("networks-", many)))
	defer a.close()
	for i := range many {
		a.join(newNetwork(fmt.Sprint("net", i), int32(2000+i), "192.168.0.0/16"), "192.168.0.2")
	}
	made := a.sync()
	read, decided := a.rest()
	r := measure.Results{}
	r.Add(measure.Milliseconds(made), many, "made")
	r.Add(measure.Milliseconds(read), many, "read")
	r.Add(measure.Milliseconds(decided), many, "decided")
	return r
}
