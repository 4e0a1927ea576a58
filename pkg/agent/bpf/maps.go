//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

// These are the structures of src/layout.h. TestLayout compares them with the types that clang
// recorded in the object. A network's byte order is kept in arrays of bytes.
type (
	portValue struct {
		VNI         uint32
		MAC         [6]byte
		Zero        uint16
		IP, Transit [16]byte
	}
	placeKey struct {
		VNI  uint32
		MAC  [6]byte
		Zero uint16
	}
	placeValue struct {
		Interface uint32
		Node, IP  [16]byte
	}
	networkValue struct {
		MTU, Bits uint32
		Gateway   [16]byte
		MAC       [6]byte
		Egress    uint16
	}
	nodeValue   struct{ Interface, Direct uint32 }
	configValue struct {
		Local          [16]byte
		VXLAN, Gateway uint32
		Port           [2]byte
		MAC            [6]byte
	}
	dropKey struct{ VNI, Interface, Reason uint32 }
)

// as16 is an address as the programs compare it: IPv4 is mapped, none is zero.
func as16(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

func from16(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(b).Unmap()
}

func encodeKey(k tables.PlaceKey) placeKey { return placeKey{VNI: uint32(k.VNI), MAC: k.MAC} }

func (k placeKey) decode() tables.PlaceKey {
	return tables.PlaceKey{VNI: int32(k.VNI), MAC: dataplane.MAC(k.MAC)}
}

func encodePort(p tables.Port) portValue {
	return portValue{VNI: uint32(p.VNI), MAC: p.MAC, IP: as16(p.IP), Transit: as16(p.Transit)}
}

func (v portValue) decode() tables.Port {
	return tables.Port{VNI: int32(v.VNI), MAC: dataplane.MAC(v.MAC), IP: from16(v.IP), Transit: from16(v.Transit)}
}

func encodePlace(p tables.Place) placeValue {
	return placeValue{Interface: p.Interface, Node: as16(p.Node), IP: as16(p.IP)}
}

func (v placeValue) decode() tables.Place {
	return tables.Place{IP: from16(v.IP), Interface: v.Interface, Node: from16(v.Node)}
}

func encodeNetwork(vni int32, n tables.Network) networkValue {
	v := networkValue{MTU: uint32(n.MTU), Bits: uint32(n.Bits), Gateway: as16(n.Gateway), MAC: dataplane.GatewayMAC(vni)}
	if n.Gateway.Is4() {
		v.Bits += mappedBits
	}
	if n.Egress {
		v.Egress = 1
	}
	return v
}

// mappedBits is the length of the prefix of a mapped IPv4 address.
const mappedBits = 96

func (v networkValue) decode() tables.Network {
	n := tables.Network{MTU: int(v.MTU), Bits: int(v.Bits), Gateway: from16(v.Gateway), Egress: v.Egress == 1}
	if n.Gateway.Is4() {
		n.Bits -= mappedBits
	}
	return n
}

// SetConfig of the programs. Until it is set, they take nothing from the wire.
func (p *Programs) SetConfig(c tables.Config) error {
	v := configValue{Local: as16(c.Local), VXLAN: c.VXLAN, Gateway: c.Gateway, MAC: dataplane.NodeMAC}
	binary.BigEndian.PutUint16(v.Port[:], c.UDPPort)
	return p.set("config", uint32(0), v, "the configuration")
}

// SetPort lets the interface send as that port.
func (p *Programs) SetPort(index tables.PortKey, port tables.Port) error {
	return p.set("ports", index, encodePort(port), index)
}

// SetPlace leads packets for a MAC address to a port or node.
func (p *Programs) SetPlace(key tables.PlaceKey, place tables.Place) error {
	return p.set("places", encodeKey(key), encodePlace(place), key)
}

// SetNetwork opens a Network on this node.
func (p *Programs) SetNetwork(vni int32, n tables.Network) error {
	return p.set("networks", uint32(vni), encodeNetwork(vni, n), vni)
}

// SetNode accepts VXLAN from the address. The wire leads to it.
func (p *Programs) SetNode(address netip.Addr, wire tables.Wire) error {
	v := nodeValue{Interface: wire.Interface}
	if wire.Direct {
		v.Direct = 1
	}
	return p.set("nodes", as16(address), v, address)
}

// SetTransit leads packets for a transit address to a port that has it.
func (p *Programs) SetTransit(address netip.Addr, index tables.PortKey) error {
	return p.set("transits", as16(address), index, address)
}

// Delete the entry with the key. Without it, the programs drop the packets that need it.
func (p *Programs) Delete(k tables.Key) error {
	switch k.Map {
	case tables.PortMap:
		return p.del("ports", k.Port, k)
	case tables.PlaceMap:
		return p.del("places", encodeKey(k.Place), k)
	case tables.NetworkMap:
		return p.del("networks", uint32(k.VNI), k)
	}
	return p.del(k.Map.String(), as16(k.Address), k) // nodes or transits
}

// Transits are the contents of the map of transit addresses.
func (m *Maps) Transits() (map[netip.Addr]tables.PortKey, error) {
	return read(m.maps["transits"], from16, func(v uint32) tables.PortKey { return v })
}

// Ports are the contents of the map of ports.
func (m *Maps) Ports() (map[tables.PortKey]tables.Port, error) {
	return read(m.maps["ports"], func(k uint32) tables.PortKey { return k }, portValue.decode)
}

// Places are the contents of the map of places.
func (m *Maps) Places() (map[tables.PlaceKey]tables.Place, error) {
	return read(m.maps["places"], placeKey.decode, placeValue.decode)
}

// Networks are the contents of the map of networks.
func (m *Maps) Networks() (map[int32]tables.Network, error) {
	return read(m.maps["networks"], func(k uint32) int32 { return int32(k) }, networkValue.decode)
}

// Nodes are the contents of the map of nodes, by address.
func (m *Maps) Nodes() (map[netip.Addr]tables.Wire, error) {
	return read(m.maps["nodes"], from16, func(v nodeValue) tables.Wire { return tables.Wire{Interface: v.Interface, Direct: v.Direct == 1} })
}

// Config of the programs. It is zero until it is set.
func (m *Maps) Config() (tables.Config, error) {
	var v configValue
	if err := m.maps["config"].Lookup(uint32(0), &v); err != nil {
		return tables.Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	return tables.Config{Local: from16(v.Local), VXLAN: v.VXLAN, UDPPort: binary.BigEndian.Uint16(v.Port[:]), Gateway: v.Gateway}, nil
}

// Read returns the contents of all maps, and those of Nodes.
func (m *Maps) Read() (t tables.Tables, wires map[netip.Addr]tables.Wire, err error) {
	t = tables.Empty()
	var errs [5]error
	t.Ports, errs[0] = m.Ports()
	t.Places, errs[1] = m.Places()
	t.Networks, errs[2] = m.Networks()
	wires, errs[3] = m.Nodes()
	t.Transits, errs[4] = m.Transits()
	for address := range wires {
		t.Nodes[address] = struct{}{}
	}
	return t, wires, errors.Join(errs[:]...)
}

// SetPlaces sets many entries, in any order. They are changes of tables.PlaceMap. Two system calls at once share
// the kernel's work, which is most of the time of a first Sync.
func (p *Programs) SetPlaces(changes []tables.Change) error {
	var errs [2]error
	var calls sync.WaitGroup
	half := len(changes) / 2
	for i, part := range [][]tables.Change{changes[:half], changes[half:]} {
		if len(part) == 0 {
			continue
		}
		calls.Go(func() {
			keys, values := make([]placeKey, len(part)), make([]placeValue, len(part))
			for j := range part {
				keys[j], values[j] = encodeKey(part[j].Place), encodePlace(part[j].Value.(tables.Place))
			}
			_, errs[i] = p.maps["places"].BatchUpdate(keys, values, nil)
		})
	}
	calls.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("set %d entries in the table of places: %w", len(changes), err)
	}
	return nil
}

// batch is the number of entries that are read with one system call.
const batch = 4096

func read[K, V any, DK comparable, DV any](m *ebpf.Map, key func(K) DK, value func(V) DV) (map[DK]DV, error) {
	all := map[DK]DV{}
	keys, values := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			all[key(keys[i])] = value(values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) { // that was the last one
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", m, err)
		}
	}
}

func (p *Programs) set(table string, key, value, name any) error {
	if err := p.maps[table].Put(key, value); err != nil {
		return fmt.Errorf("set %v in the table of %s: %w", name, table, err)
	}
	return nil
}

// del succeeds if the entry does not exist.
func (p *Programs) del(table string, key, name any) error {
	if err := p.maps[table].Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete %v from the table of %s: %w", name, table, err)
	}
	return nil
}
