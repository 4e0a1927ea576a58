//go:build linux && kernel

package bpf

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
)

func address(s string) tables.Address { return tables.AddressOf(addr(s)) }

// Entries are read as they were set, also by the next process: the maps are pinned.
func TestMapsOutliveTheProcess(t *testing.T) {
	dir := bpffs(t)
	p, err := Load(dir)
	must(t, err)
	port := tables.Port{VNI: 70001, MAC: dataplane.MAC{0x0a, 0x58, 1, 2, 3, 4}, IP: address("1.2.3.4"), Transit: address("100.64.0.7")}
	port6 := tables.Port{VNI: 70001, MAC: dataplane.MAC{0x0a, 0x58, 9}, IP: address("fd00::2"), Transit: address("fd64::9")}
	key := tables.PlaceKey{VNI: 70001, MAC: port.MAC}
	place := tables.Place{IP: port.IP, Node: address("fd00::2")}
	network := dataplane.Network{VNI: 70001, MTU: 1450, Gateway: addr("1.2.3.1"), CIDR: netip.MustParsePrefix("1.2.3.0/24"), Egress: true}
	network6 := dataplane.Network{VNI: 70006, MTU: 1450, Gateway: addr("fd00::1"), CIDR: netip.MustParsePrefix("fd00::/64")}
	must(t, setPort(p, 7, port))
	must(t, setPort(p, 9, port6))
	must(t, setPlace(p, key, place))
	must(t, setNetwork(p, network))
	must(t, setNetwork(p, network6))
	must(t, setTransit(p, port.Transit.Addr(), 7))
	must(t, setTransit(p, port6.Transit.Addr(), 9))
	must(t, setTransit(p, addr("100.64.0.8"), 8))
	must(t, p.Write(tables.Change{Key: tables.Key{Map: tables.TransitMap, Address: addr("100.64.0.8")}}))
	must(t, setPort(p, 8, port))
	must(t, p.Write(tables.Change{Key: tables.Key{Map: tables.PortMap, Port: 8}}))
	must(t, p.Write(tables.Change{Key: tables.Key{Map: tables.PortMap, Port: 8}})) // gone already
	p.Close()

	p, err = Load(dir)
	must(t, err)
	defer p.Close()
	ports, err := p.Ports()
	must(t, err)
	if want := map[tables.PortKey]tables.Port{7: port, 9: port6}; !reflect.DeepEqual(ports, want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
	places, err := p.Places()
	must(t, err)
	if want := map[tables.PlaceKey]tables.Place{key: place}; !reflect.DeepEqual(places, want) {
		t.Errorf("places %v, want %v", places, want)
	}
	networks, err := p.Networks()
	must(t, err)
	if want := map[int32]tables.Network{70001: tables.NetworkOf(&network), 70006: tables.NetworkOf(&network6)}; !reflect.DeepEqual(networks, want) {
		t.Errorf("networks %v, want %v", networks, want)
	}
	transits, err := p.Transits()
	must(t, err)
	if want := map[netip.Addr]tables.PortKey{port.Transit.Addr(): 7, port6.Transit.Addr(): 9}; !reflect.DeepEqual(transits, want) {
		t.Errorf("transits %v, want %v", transits, want)
	}
}

func manyPlaces(count int) map[tables.PlaceKey]tables.Place {
	all := map[tables.PlaceKey]tables.Place{}
	for i := range uint32(count) {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], 10<<24|i)
		all[tables.PlaceKey{VNI: 70001, MAC: dataplane.MAC{0x0a, 0x58, ip[0], ip[1], ip[2], ip[3]}}] = tables.Place{IP: tables.AddressOf(netip.AddrFrom4(ip)), Node: address("10.9.0.2")}
	}
	return all
}

// 50,000 entries of remote pods: all set, all read, one set.
func BenchmarkPlaces(b *testing.B) {
	p, err := Load(bpffs(b))
	must(b, err)
	defer p.Close()
	all := manyPlaces(50_000)
	var changes []tables.Change
	for key, place := range all {
		changes = append(changes, tables.Change{Key: tables.Key{Map: tables.PlaceMap, Place: key}, Value: place})
	}
	b.Run("set50000", func(b *testing.B) {
		for b.Loop() {
			must(b, p.SetPlaces(changes))
		}
	})
	b.Run("read50000", func(b *testing.B) {
		for b.Loop() {
			got, err := p.Places()
			must(b, err)
			if len(got) != len(all) {
				b.Fatalf("%d entries", len(got))
			}
		}
	})
	b.Run("setOne", func(b *testing.B) {
		for key, place := range all {
			for b.Loop() {
				must(b, setPlace(p, key, place))
			}
			break
		}
	})
}
