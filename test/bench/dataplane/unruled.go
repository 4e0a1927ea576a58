//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// setUpUnruled makes two nodes more on the wire, with the links and the entries that an
// agent makes there, and none of its rules: no data plane of a bridge and VXLAN is faster,
// and what ours lacks to it is what isolation costs.
func (b *bench) setUpUnruled(ctx context.Context) error {
	s := dataplane.State{UDPPort: 4789, Transit: netip.MustParsePrefix("100.64.0.0/16"), Networks: []dataplane.Network{b.blue.declared()}}
	for i, name := range []string{"u1", "u2"} {
		n, err := b.lab.addNode("unruled-"+name, netip.AddrFrom4([4]byte{10, 9, 0, byte(111 + i)}))
		if err != nil {
			return err
		}
		b.unruled = append(b.unruled, n)
		p, err := b.lab.pod(name, b.blue, fmt.Sprint("192.168.0.", 2+i))
		if err != nil {
			return err
		}
		p.node = n
		b.pods[name] = p
		s.Nodes = append(s.Nodes, dataplane.Node{Name: n.name, Addresses: []netip.Addr{n.ip}})
		s.Pods = append(s.Pods, p.declared())
	}
	for _, p := range []*pod{b.pods["u1"], b.pods["u2"]} {
		if err := applyUnruled(p.node, s); err != nil {
			return fmt.Errorf("make the links of %s: %w", p.node.name, err)
		}
		if err := p.attach(p.node, p.declared().UID); err != nil {
			return err
		}
		if err := echo(ctx, p.namespace); err != nil {
			return err
		}
	}
	return b.connected(ctx, b.pods["u1"].namespace, b.pods["u2"].ip)
}

func applyUnruled(n *node, s dataplane.State) (err error) {
	k, err := n.kernel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	s.Node = n.name
	if s.Host, err = k.Read(); err != nil {
		return err
	}
	want, report, ok := dataplane.Want(s)
	if !ok || len(report.Problems) > 0 {
		return fmt.Errorf("problems: %s", report.Problems)
	}
	for i := range want {
		want[i].Tables = nil
	}
	_, err = k.Perform(dataplane.Diff(s.Host, want))
	return err
}
