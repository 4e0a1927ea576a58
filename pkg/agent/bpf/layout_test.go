//go:build linux

package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
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

// Each embedded object is for any little-endian machine. That of tc needs no structure of a certain kernel. The loader finds
// each field that the one of sockets reads in the types of the running kernel, which shows them to the GPL only.
func TestObjectIsPortable(t *testing.T) {
	field := regexp.MustCompile(`Struct:"(\w+)"\[[0:]+\]`)
	type properties struct {
		object string
		kind   ebpf.ProgramType
		gpl    bool
		fields []string // the structures of the kernel that it reads the first field of, in order
	}
	wants := map[string]properties{
		"pod2.hex":    {object, ebpf.SchedCLS, false, nil},
		"sockets.hex": {socketsObject, ebpf.Tracing, true, []string{"socket", "sock", "net"}},
	}
	files, err := filepath.Glob("*.hex")
	if err != nil || len(files) != len(wants) {
		t.Errorf("%v: the files are %q", err, files)
	}
	for file, tt := range wants {
		s, err := parseObject(tt.object)
		if err != nil {
			t.Fatal(err)
		}
		if s.ByteOrder.String() != "LittleEndian" || len(s.Programs) == 0 {
			t.Errorf("%s: %s, %d programs", file, s.ByteOrder, len(s.Programs))
		}
		for name, p := range s.Programs {
			if p.Type != tt.kind {
				t.Errorf("%s is a program of type %s", name, p.Type)
			}
			if strings.Contains(p.License, "GPL") != tt.gpl {
				t.Errorf("%s has the license %s", name, p.License)
			}
			var fields []string
			for _, ins := range p.Instructions {
				if at := btf.CORERelocationMetadata(&ins); at != nil {
					fields = append(fields, field.ReplaceAllString(field.FindString(at.String()), "$1"))
				}
			}
			if !slices.Equal(fields, tt.fields) {
				t.Errorf("%s depends on the kernel's structures %q, want %q", name, fields, tt.fields)
			}
		}
	}
}
