//go:build linux

package bpf

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/pod2/pod2/pkg/agent/tables"
)

// The structures of Go and of the programs have the same fields at the same offsets.
func TestLayout(t *testing.T) {
	s, err := spec()
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]any{"port": tables.Port{}, "place_key": tables.PlaceKey{}, "place": tables.Place{}, "network": tables.Network{},
		"node": tables.Wire{}, "config": configValue{}, "drop_key": dropKey{}} {
		var c *btf.Struct
		if err := s.Types.TypeByName(name, &c); err != nil {
			t.Fatal(err)
		}
		var inC, inGo []string
		for _, m := range c.Members {
			inC = append(inC, fmt.Sprintf("%s at %d", strings.ToLower(m.Name), m.Offset.Bytes()))
		}
		goType := reflect.TypeOf(of)
		for i := range goType.NumField() {
			f := goType.Field(i)
			inGo = append(inGo, fmt.Sprintf("%s at %d", strings.ToLower(f.Name), f.Offset))
		}
		if !reflect.DeepEqual(inC, inGo) || uintptr(c.Size) != goType.Size() {
			t.Errorf("%s has in C %s and %d bytes, in Go %s and %d bytes", name, inC, c.Size, inGo, goType.Size())
		}
	}
}

// Keys and values have the size of the maps.
func TestSizes(t *testing.T) {
	s, err := spec()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]any{"ports": {tables.PortKey(0), tables.Port{}}, "places": {tables.PlaceKey{}, tables.Place{}}, "networks": {int32(0), tables.Network{}},
		"nodes": {tables.Address{}, tables.Wire{}}, "transits": {tables.Address{}, tables.PortKey(0)}, "config": {uint32(0), configValue{}}, "drops": {dropKey{}, uint64(0)}} {
		m := s.Maps[name]
		if m == nil {
			t.Fatalf("no map %s", name)
		}
		if got := [2]uintptr{reflect.TypeOf(want[0]).Size(), reflect.TypeOf(want[1]).Size()}; got != [2]uintptr{uintptr(m.KeySize), uintptr(m.ValueSize)} {
			t.Errorf("%s: %d and %d bytes, in Go %d", name, m.KeySize, m.ValueSize, got)
		}
	}
}

// Reasons have the numbers of the C enumeration.
func TestReasons(t *testing.T) {
	source, err := os.ReadFile("src/layout.h")
	if err != nil {
		t.Fatal(err)
	}
	_, enum, _ := strings.Cut(string(source), "enum reason {")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\t([A-Z]+)( = 1)?,`).FindAllStringSubmatch(enum, -1) {
		names = append(names, strings.ToLower(m[1]))
	}
	if got := strings.Join(Reasons[1:], " "); got != strings.Join(names, " ") {
		t.Errorf("in Go  %s\nin C   %s", got, strings.Join(names, " "))
	}
}

// The object is for any little-endian machine and needs no structure of a certain kernel.
func TestObjectIsPortable(t *testing.T) {
	s, err := spec()
	if err != nil {
		t.Fatal(err)
	}
	if s.ByteOrder.String() != "LittleEndian" {
		t.Errorf("%s", s.ByteOrder)
	}
	for name, p := range s.Programs {
		if p.Type != ebpf.SchedCLS {
			t.Errorf("%s is a program of type %s", name, p.Type)
		}
		if strings.Contains(p.License, "GPL") {
			t.Errorf("%s uses functions that need the license %s", name, p.License)
		}
		for i, ins := range p.Instructions {
			if btf.CORERelocationMetadata(&ins) != nil {
				t.Errorf("%s, instruction %s, depends on a structure of the kernel", name, strconv.Itoa(i))
			}
		}
	}
}
