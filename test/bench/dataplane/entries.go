//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// programming is what so many pods of other nodes cost the agent of a node that had none
// of them: reading, deciding and writing, each with the agent's own code, without its
// watch.
type programming struct {
	decide, apply time.Duration // until they are there
	read, compare time.Duration // once more, with nothing to do
	move          time.Duration // to apply that half of them are on another node
	// elsewhere is what it takes longer to decide if there are as many pods on a Network
	// that is not on this node.
	elsewhere time.Duration
}

func (p programming) resync() time.Duration { return p.read + p.compare }

// far are nodes that are only names.
var far = []dataplane.Node{
	{Name: "far1", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.1")}},
	{Name: "far2", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.2")}},
}

// remoteIP is the address of the i-th pod of another node.
func remoteIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 1 + byte(i>>16), byte(i >> 8), byte(i)})
}

// big is the Network that they are on.
func big() network { return newNetwork("big", 1002, "10.0.0.0/8") }

func remotePods(n network, many int) []dataplane.Pod {
	pods := make([]dataplane.Pod, many)
	for i := range pods {
		ip := remoteIP(i)
		pods[i] = dataplane.Pod{Namespace: space, Name: fmt.Sprint("far-", i), UID: types.UID(fmt.Sprint("far-", i)), Node: "far1",
			Attachments: []dataplane.Attachment{{Network: n.name, IP: ip, MAC: macOf(ip)}}}
	}
	return pods
}

func measureProgramming(dir string, many int) (p programming, err error) {
	a, err := newAlone(filepath.Join(dir, fmt.Sprint("entries-", many)))
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	a.join(big(), "10.0.0.2")
	// The links and the router are there before: what is measured are the pods.
	if _, err := a.sync(); err != nil {
		return p, err
	}
	a.state.Pods = append(a.state.Pods, remotePods(big(), many)...)
	var plan dataplane.Plan
	if plan, _, p.decide, err = a.decide(); err != nil {
		return p, err
	}
	if len(plan) != 3*many {
		return p, fmt.Errorf("%d steps for %d pods", len(plan), many)
	}
	if p.apply, err = a.apply(plan); err != nil {
		return p, err
	}
	if p.read, p.compare, err = a.rest(); err != nil {
		return p, err
	}
	for i := 1; i < len(a.state.Pods); i += 2 {
		a.state.Pods[i].Node = far[1].Name
	}
	if plan, _, _, err = a.decide(); err != nil {
		return p, err
	}
	if p.move, err = a.apply(plan); err != nil {
		return p, err
	}
	return p, p.decideElsewhere(a.state, remotePods(network{name: "elsewhere"}, many))
}

// decideElsewhere once with those pods, and once without.
func (p *programming) decideElsewhere(s dataplane.State, pods []dataplane.Pod) error {
	took := func() (time.Duration, error) {
		begin := time.Now()
		if _, report, ok := dataplane.Want(s); !ok || len(report.Problems) > 0 {
			return 0, fmt.Errorf("problems: %s", report.Problems)
		}
		return time.Since(begin), nil
	}
	without, err := took()
	if err != nil {
		return err
	}
	s.Networks = append(s.Networks, dataplane.Network{Namespace: space, Name: "elsewhere", VNI: 9, CIDR: big().cidr, Gateway: big().gateway, MTU: 1450})
	s.Pods = append(s.Pods, pods...)
	with, err := took()
	p.elsewhere = max(0, with-without)
	return err
}
