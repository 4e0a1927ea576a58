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
// Network is gone.
func (s *session) drawNetworks(ctx context.Context, only string, blocks []*v1.AddressBlock) error {
	networks, err := s.networks(ctx)
	if err != nil {
		return err
	}
	var maps []*networkMap
	for _, n := range networks {
		if only == "" || n.Name == only {
			maps = append(maps, &networkMap{identity: identity{n.Namespace, n.Name, n.UID}, network: n})
		}
	}
	for _, block := range blocks {
		of := identity{block.Namespace, block.Spec.Network, block.Spec.NetworkUID}
		i := slices.IndexFunc(maps, func(m *networkMap) bool { return m.identity == of })
		if i < 0 {
			i = len(maps)
			maps = append(maps, &networkMap{identity: of})
		}
		maps[i].blocks = append(maps[i].blocks, block)
	}
	if len(maps) == 0 {
		fmt.Fprintf(s.ErrOut, "No Networks found %s.\n", within(s.namespace))
		return nil
	}
	slices.SortStableFunc(maps, func(a, b *networkMap) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	for _, m := range maps {
		title := m.name
		if s.namespace == metav1.NamespaceAll {
			title = m.namespace + "/" + m.name
		}
		drawn, err := m.draw(title)
		if err != nil {
			return err
		}
		fmt.Fprint(s.Out, drawn)
	}
	fmt.Fprint(s.Out, legend)
	return nil
}

// networkMap is the map of one Network.
type networkMap struct {
	identity
	network *v1.Network // nil if it is gone
	blocks  []*v1.AddressBlock
}

// identity of a Network. One that was recreated with the same name has another UID.
type identity struct {
	namespace, name string
	uid             types.UID
}

// draw draws the Network under a heading, with 64 addresses in a row. It leaves out rows
// that are outside the Network. If a Network has no AddressBlock yet, it draws the first.
//
//	blue 10.0.0.0/16   2 bound, 1 reserved, 0 resting, 65531 free
//	       10.0.0.0  xx##=....
//	  65278 more are free, in AddressBlocks that do not exist yet
func (m *networkMap) draw(title string) (string, error) {
	var cidr netip.Prefix
	var pool ipam.Pool
	heading := title + " (deleted)"
	if n := m.network; n != nil {
		var err error
		if pool, err = network.Pool(n); err != nil {
			return fmt.Sprintf("%s   cannot be drawn: %v\n", title, err), nil
		}
		cidr, _ = ipam.CheckCIDR(n.Spec.CIDR)
		heading = title + " " + cidr.String()
		if len(m.blocks) == 0 {
			first := v1.AddressBlock{Spec: v1.AddressBlockSpec{CIDR: ipam.Block(cidr.Addr()).String()}}
			m.blocks = append(m.blocks, &first)
		}
	}
	count := map[rune]int64{}
	unheld := map[rune]int64{} // the marks of the same addresses if no pod held one
	var rows strings.Builder
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
		address := prefix.Masked().Addr()
		for range ipam.BlockSize / perRow {
			first, row := address, ""
			for range perRow {
				mark := markOf(pool, cidr, address)
				unheld[mark]++
				if is, ok := held[address]; ok {
					mark = is
				}
				count[mark]++
				row += string(mark)
				address = address.Next()
			}
			if strings.Trim(row, string(markOutside)) != "" {
				fmt.Fprintf(&rows, "%*s  %s\n", indent(prefix), first, row)
			}
		}
	}
	// The addresses that the Network hands out, held or not, except those that are drawn.
	free, request := pool.ForAny(), pool.Capacity()-pool.ForAny()
	total := free
	if free != math.MaxInt64 { // or more, so the drawn addresses do not matter
		free -= unheld[markFree]
		request -= unheld[markRequest]
		total = free + count[markFree]
	}
	more, onRequest := "", ""
	if free > 0 {
		more = fmt.Sprintf("  %s more are free, in AddressBlocks that do not exist yet\n", number(free, cidr))
	}
	if n := count[markRequest] + request; n > 0 {
		onRequest = fmt.Sprintf(", %s free on request", number(n, cidr))
	}
	return fmt.Sprintf("%s   %d bound, %d reserved, %d resting, %s free%s\n%s%s", heading,
		count[markBound], count[markReserved], count[markResting], number(total, cidr), onRequest, rows.String(), more), nil
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
