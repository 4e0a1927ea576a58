//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

// Package tables has the other structures of src/layout.h. TestLayout compares all with the types that
// clang recorded in the object. A network's byte order is kept in arrays of bytes.
type (
	configValue struct {
		Local          tables.Address
		VXLAN, Gateway uint32
		Port           [2]byte
		MAC            [6]byte
	}
	dropKey struct{ VNI, Interface, Reason uint32 }
)

// SetConfig of the programs. Until it is set, they take nothing from the wire.
func (p *Programs) SetConfig(c tables.Config) error {
	v := configValue{Local: tables.AddressOf(c.Local), VXLAN: c.VXLAN, Gateway: c.Gateway, MAC: dataplane.NodeMAC}
	binary.BigEndian.PutUint16(v.Port[:], c.UDPPort)
	return p.set("config", uint32(0), v, "the configuration")
}

// Write one change. The value of a node is the Wire that leads to it. Without an entry, the programs drop the packets
// that need it.
func (p *Programs) Write(c tables.Change) error {
	if c.Value == nil {
		return p.del(c.Map.String(), c.Raw(), c.Key)
	}
	return p.set(c.Map.String(), c.Raw(), c.Value, c.Key)
}

// Transits are the contents of the map of transit addresses.
func (m *Maps) Transits() (map[netip.Addr]tables.PortKey, error) {
	return byAddress[tables.PortKey](m.maps["transits"])
}

// Ports are the contents of the map of ports.
func (m *Maps) Ports() (map[tables.PortKey]tables.Port, error) {
	return read[tables.PortKey, tables.Port](m.maps["ports"])
}

// Places are the contents of the map of places.
func (m *Maps) Places() (map[tables.PlaceKey]tables.Place, error) {
	return read[tables.PlaceKey, tables.Place](m.maps["places"])
}

// Networks are the contents of the map of networks.
func (m *Maps) Networks() (map[int32]tables.Network, error) {
	return read[int32, tables.Network](m.maps["networks"])
}

// Nodes are the contents of the map of nodes, by address.
func (m *Maps) Nodes() (map[netip.Addr]tables.Wire, error) {
	return byAddress[tables.Wire](m.maps["nodes"])
}

// Config of the programs. It is zero until it is set.
func (m *Maps) Config() (tables.Config, error) {
	var v configValue
	if err := m.maps["config"].Lookup(uint32(0), &v); err != nil {
		return tables.Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	return tables.Config{Local: v.Local.Addr(), VXLAN: v.VXLAN, UDPPort: binary.BigEndian.Uint16(v.Port[:]), Gateway: v.Gateway}, nil
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
			keys, values := make([]tables.PlaceKey, min(batch, len(part))), make([]tables.Place, min(batch, len(part)))
			for some := range slices.Chunk(part, batch) {
				for j := range some {
					keys[j], values[j] = some[j].Place, some[j].Value.(tables.Place)
				}
				if _, errs[i] = p.maps["places"].BatchUpdate(keys[:len(some)], values[:len(some)], nil); errs[i] != nil {
					return
				}
			}
		})
	}
	calls.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("set %d entries in the table of places: %w", len(changes), err)
	}
	return nil
}

// batch is the number of entries that are read or set with one system call.
const batch = 4096

func read[K comparable, V any](m *ebpf.Map) (map[K]V, error) {
	all := map[K]V{}
	keys, values := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			all[keys[i]] = values[i]
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) { // that was the last one
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", m, err)
		}
	}
}

func byAddress[V any](m *ebpf.Map) (map[netip.Addr]V, error) {
	entries, err := read[tables.Address, V](m)
	all := make(map[netip.Addr]V, len(entries))
	for address, value := range entries {
		all[address.Addr()] = value
	}
	return all, err
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
