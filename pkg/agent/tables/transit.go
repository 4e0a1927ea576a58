package tables

import (
	"encoding/binary"
	"net/netip"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// transits are the addresses that the node sees instead of those of pods. Two pods of one node may have one address,
// on two Networks, but each has its own transit address. It never leaves the node.
//
// Of the IPv4 range, a port has the address at the place of its interface index, modulo the size of the range. Only
// after as many interfaces as there are addresses, another port may have that one. The port then has the next free one.
type transits struct {
	cidr netip.Prefix
	// was are addresses that an earlier agent gave to ports. A port keeps its address, because a new one would break
	// its connections.
	was  map[PortKey]netip.Addr
	of   map[PortKey]netip.Addr
	user map[netip.Addr]PortKey
}

// SetTransits sets the range of IPv4 transit addresses, and the ones that ports have had. It comes before the
// first port.
func (d *Desired) SetTransits(cidr netip.Prefix, was map[netip.Addr]PortKey) {
	d.transits.cidr, d.transits.was = cidr, map[PortKey]netip.Addr{}
	for address, index := range was {
		if cidr.Contains(address) {
			d.transits.was[index] = address
		}
	}
}

// take an address for a port; none if all are taken.
func (t *transits) take(index PortKey) {
	size := uint32(1) << (32 - t.cidr.Bits())
	if !t.cidr.IsValid() || len(t.user) >= int(size) {
		return
	}
	address := t.was[index]
	for place := index; !address.IsValid() || t.user[address] != 0; place++ {
		address = last(t.cidr.Masked().Addr(), place%size)
	}
	t.of[index], t.user[address] = address, index
}

func (t *transits) release(index PortKey) {
	delete(t.user, t.of[index])
	delete(t.of, index)
	delete(t.was, index)
}

// last adds a number to the last 32 bits of an address.
func last(a netip.Addr, number uint32) netip.Addr {
	b := a.AsSlice()
	tail := b[len(b)-4:]
	binary.BigEndian.PutUint32(tail, binary.BigEndian.Uint32(tail)+number)
	sum, _ := netip.AddrFromSlice(b)
	return sum
}

// transit address of a port whose pod has an address of that family; zero if none was free.
func (d *Desired) transit(index PortKey, ipv6 bool) netip.Addr {
	if ipv6 {
		return last(dataplane.Transit6.Addr(), index)
	}
	return d.transits.of[index]
}

// transitUser is the port that may have a transit address; 0 if there is none.
func (d *Desired) transitUser(address netip.Addr) PortKey {
	if address.Is4() {
		return d.transits.user[address]
	}
	b := address.As16()
	return binary.BigEndian.Uint32(b[12:])
}
