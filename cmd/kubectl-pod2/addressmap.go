package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/network"
)

// What stands for an address in a map. A held one is drawn as held, also where it
// would not be handed out anew.
const (
	markBound    = '#'
	markReserved = '='
	markResting  = '~'
	markFree     = '.'
	markRequest  = ':'
	markNever    = 'x'
	markOutside  = '_'

	// legend has one row for each.
	legend = `
  # bound      = reserved for a replica      ~ resting
  . free       : free, only for pods that ask for it by name
  x never handed out                         _ outside the Network
`
	perRow = 64
)

var marks = map[v1.AddressState]rune{v1.AddressBound: markBound, v1.AddressReserved: markReserved, v1.AddressResting: markResting}

func (t *tool) drawBlocks(ctx context.Context, c clients, namespace string, blocks []*v1.AddressBlock) error {
	var names []string
	for _, block := range blocks {
		names = append(names, block.Spec.Network)
	}
	networks, err := c.networks(ctx, namespace, names)
	if err != nil {
		return err
	}
	byName := map[string]*v1.Network{}
	for _, n := range networks {
		byName[n.Name] = n
	}
	for _, block := range blocks {
		drawn, err := draw(byName[block.Spec.Network], block)
		if err != nil {
			return err
		}
		fmt.Fprint(t.Out, drawn)
	}
	fmt.Fprint(t.Out, legend)
	return nil
}

// draw draws one block, 64 addresses a row. Without its Network, which is gone
// or another by now, no address of it is free.
//
//	blue 10.0.0.0/24   2 bound, 1 reserved, 0 resting, 250 free, 1 free on request
//	         10.0.0.0  xx##=....
func draw(n *v1.Network, block *v1.AddressBlock) (string, error) {
	prefix, err := netip.ParsePrefix(block.Spec.CIDR)
	if err != nil {
		return "", fmt.Errorf("draw AddressBlock %s/%s: %w", block.Namespace, block.Name, err)
	}
	var cidr netip.Prefix
	var pool ipam.Pool
	if n != nil && n.UID == block.Spec.NetworkUID {
		if pool, err = network.Pool(n); err != nil {
			return "", fmt.Errorf("draw the addresses of Network %s/%s: %w", n.Namespace, n.Name, err)
		}
		cidr, _ = ipam.CheckCIDR(n.Spec.CIDR)
	}
	held := map[netip.Addr]rune{}
	for _, e := range block.Spec.Entries {
		if address, err := netip.ParseAddr(e.Address); err == nil {
			held[address] = marks[e.State]
		}
	}
	count := map[rune]int{}
	var rows strings.Builder
	address := prefix.Masked().Addr()
	for i := range ipam.BlockSize {
		mark, taken := held[address]
		switch {
		case taken:
		case pool.Has(address):
			mark = markFree
		case pool.Refusal(address) == "":
			mark = markRequest
		case cidr.Contains(address):
			mark = markNever
		default:
			mark = markOutside
		}
		count[mark]++
		if i%perRow == 0 {
			fmt.Fprintf(&rows, "%*s  ", indent(prefix), address)
		}
		rows.WriteRune(mark)
		if i%perRow == perRow-1 {
			rows.WriteByte('\n')
		}
		address = address.Next()
	}
	onRequest := ""
	if n := count[markRequest]; n > 0 {
		onRequest = fmt.Sprintf(", %d free on request", n)
	}
	return fmt.Sprintf("%s %s   %d bound, %d reserved, %d resting, %d free%s\n%s", block.Spec.Network, prefix,
		count[markBound], count[markReserved], count[markResting], count[markFree], onRequest, rows.String()), nil
}

// indent is as wide as the longest first address of a row may be.
func indent(block netip.Prefix) int {
	if block.Addr().Is4() {
		return len("255.255.255.255")
	}
	return len("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")
}
