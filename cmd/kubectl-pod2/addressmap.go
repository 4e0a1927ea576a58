package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/pkg/network"
)

// Marks of addresses in a map. A map shows an address as held even if the Network would
// not hand it out again.
const (
	markBound    = '#'
	markReserved = '='
	markResting  = '~'
	markFree     = '.'
	markRequest  = ':'
	markNever    = 'x'
	markOutside  = '_'

	// legend explains each mark.
	legend = `
  # bound      = reserved for a replica      ~ resting
  . free       : free, only for pods that ask for it by name
  x never handed out                         _ outside the Network
`
	perRow = 64
)

var marks = map[v1.AddressState]rune{v1.AddressBound: markBound, v1.AddressReserved: markReserved, v1.AddressResting: markResting}

// drawNetworks draws one Network, or all if only is empty, and the AddressBlocks whose
// Network is gone. An empty namespace means all namespaces.
func (t *tool) drawNetworks(ctx context.Context, c clients, namespace, only string, blocks []*v1.AddressBlock) error {
	list, err := c.sample.SamplecrdV1().Networks(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Networks of %s: %w", scope(namespace), err)
	}
	var maps []*networkMap
	for i := range list.Items {
		if n := &list.Items[i]; only == "" || n.Name == only {
			maps = append(maps, &networkMap{namespace: n.Namespace, name: n.Name, network: n})
		}
	}
	for _, block := range blocks {
		of := func(m *networkMap) bool { return m.has(block) }
		i := slices.IndexFunc(maps, of)
		if i < 0 {
			i = len(maps)
			maps = append(maps, &networkMap{namespace: block.Namespace, name: block.Spec.Network, uid: block.Spec.NetworkUID})
		}
		maps[i].blocks = append(maps[i].blocks, block)
	}
	slices.SortStableFunc(maps, func(a, b *networkMap) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, m := range maps {
		m.title = m.name
		if namespace == metav1.NamespaceAll {
			m.title = m.namespace + "/" + m.name
		}
		drawn, err := m.draw()
		if err != nil {
			return err
		}
		fmt.Fprint(t.Out, drawn)
	}
	if len(maps) == 0 {
		fmt.Fprintf(t.ErrOut, "No Networks found %s.\n", within(namespace))
		return nil
	}
	fmt.Fprint(t.Out, legend)
	return nil
}

// networkMap is the map of one Network.
type networkMap struct {
	namespace, name string
	title           string      // of the heading
	network         *v1.Network // nil if it is gone
	uid             types.UID   // of a Network that is gone
	blocks          []*v1.AddressBlock
}

// has says whether the AddressBlock belongs to this Network. A Network that was recreated
// with the same name has another UID.
func (m *networkMap) has(block *v1.AddressBlock) bool {
	uid := m.uid
	if m.network != nil {
		uid = m.network.UID
	}
	return m.namespace == block.Namespace && m.name == block.Spec.Network && uid == block.Spec.NetworkUID
}

// draw draws the Network under a heading, with 64 addresses in a row. It leaves out rows
// that are outside the Network. If a Network has no AddressBlock yet, it draws the first.
//
//	blue 10.0.0.0/16   2 bound, 1 reserved, 0 resting, 65531 free
//	       10.0.0.0  xx##=....
//	  65278 more are free, in AddressBlocks that do not exist yet
func (m *networkMap) draw() (string, error) {
	var cidr netip.Prefix
	var pool ipam.Pool
	heading := m.title + " (deleted)"
	if n := m.network; n != nil {
		var err error
		if pool, err = network.Pool(n); err != nil {
			return fmt.Sprintf("%s   cannot be drawn: %v\n", m.title, err), nil
		}
		cidr, _ = ipam.CheckCIDR(n.Spec.CIDR)
		heading = m.title + " " + cidr.String()
		if len(m.blocks) == 0 {
			first := v1.AddressBlock{Spec: v1.AddressBlockSpec{CIDR: ipam.Block(cidr.Addr()).String()}}
			m.blocks = append(m.blocks, &first)
		}
	}
	count := map[rune]int64{}
	var rows strings.Builder
	// The addresses that the Network hands out, held or not, except those that are drawn.
	free, request := pool.ForAny(), pool.Capacity()-pool.ForAny()
	for _, block := range m.blocks {
		prefix, err := netip.ParsePrefix(block.Spec.CIDR)
		if err != nil {
			return "", fmt.Errorf("draw AddressBlock %s/%s: %w", block.Namespace, block.Name, err)
		}
		held := map[netip.Addr]rune{}
		for _, e := range block.Spec.Entries {
			if address, err := netip.ParseAddr(e.Address); err == nil {
				held[address] = marks[e.State]
			}
		}
		row := make([]rune, 0, perRow)
		address := prefix.Masked().Addr()
		for range ipam.BlockSize {
			mark, taken := held[address]
			can := markOf(pool, cidr, address)
			switch {
			case pool.ForAny() == math.MaxInt64: // or more, so the drawn addresses do not matter
			case can == markFree:
				free--
			case can == markRequest:
				request--
			}
			if !taken {
				mark = can
			}
			count[mark]++
			if row = append(row, mark); len(row) == perRow {
				if slices.ContainsFunc(row, func(mark rune) bool { return mark != markOutside }) {
					fmt.Fprintf(&rows, "%*s  %s\n", indent(prefix), first(address), string(row))
				}
				row = row[:0]
			}
			address = address.Next()
		}
	}
	more := ""
	if free > 0 {
		more = fmt.Sprintf("  %s more are free, in AddressBlocks that do not exist yet\n", number(free, cidr))
	}
	onRequest := ""
	if n := count[markRequest] + request; n > 0 {
		onRequest = fmt.Sprintf(", %s free on request", number(n, cidr))
	}
	total := free
	if total != math.MaxInt64 {
		total += count[markFree]
	}
	return fmt.Sprintf("%s   %d bound, %d reserved, %d resting, %s free%s\n%s%s", heading,
		count[markBound], count[markReserved], count[markResting], number(total, cidr), onRequest, rows.String(), more), nil
}

// first is the first address of the row that ends with this one.
func first(last netip.Addr) netip.Addr {
	raw := last.AsSlice()
	raw[len(raw)-1] &^= perRow - 1
	address, _ := netip.AddrFromSlice(raw)
	return address
}

// markOf returns the mark of an address that no pod holds.
func markOf(pool ipam.Pool, cidr netip.Prefix, address netip.Addr) rune {
	switch {
	case pool.Has(address):
		return markFree
	case pool.Refusal(address) == "":
		return markRequest
	case cidr.Contains(address):
		return markNever
	}
	return markOutside
}

// number of addresses of a CIDR. Nobody reads 19 digits, so a large number is given by its
// magnitude. A number that is too large to count has the magnitude of the CIDR.
func number(n int64, cidr netip.Prefix) string {
	switch {
	case n == math.MaxInt64:
		return fmt.Sprintf("about 2^%d", cidr.Addr().BitLen()-cidr.Bits())
	case n >= 1<<32:
		return fmt.Sprintf("about 2^%d", int(math.Round(math.Log2(float64(n)))))
	}
	return strconv.FormatInt(n, 10)
}

// indent is the maximum width of the first address of a row.
func indent(block netip.Prefix) int {
	if block.Addr().Is4() {
		return len("255.255.255.255")
	}
	return len("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")
}
