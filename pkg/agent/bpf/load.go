//go:build linux

package bpf

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// object is the ELF file of src/pod2.c, in hexadecimal digits. `make generate` writes it.
//
//go:embed pod2.hex
var object string

// layoutVersion is the version of the structures in src/layout.h. Maps are pinned below it, so
// programs never read entries of another layout.
const layoutVersion = 2

// Maps are the pinned maps.
type Maps struct {
	maps map[string]*ebpf.Map
	dir  string
}

// Programs are the loaded programs and their maps.
type Programs struct {
	Maps
	collection *ebpf.Collection
}

func spec() (*ebpf.CollectionSpec, error) { return parseObject(object) }

func parseObject(object string) (*ebpf.CollectionSpec, error) {
	elf, err := hex.DecodeString(strings.ReplaceAll(object, "\n", ""))
	if err != nil {
		return nil, fmt.Errorf("decode the data plane's programs: %w", err)
	}
	s, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(elf))
	if err != nil {
		return nil, fmt.Errorf("read the data plane's programs: %w", err)
	}
	return s, nil
}

// Load the programs into the kernel. Their maps are pinned in a directory of dir, which must be on
// a BPF file system. Load uses the maps that are pinned there already, with all their entries.
func Load(dir string) (*Programs, error) {
	s, err := spec()
	if err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit of locked memory, which kernels before 5.11 need: %w", err)
	}
	dir = versioned(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of pinned maps; is a BPF file system mounted there? %w", err)
	}
	for _, m := range s.Maps {
		m.Pinning = ebpf.PinByName
	}
	c, err := ebpf.NewCollectionWithOptions(s, ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: dir}})
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		return nil, fmt.Errorf("maps in %s have another layout than version %d, and pods use them: drain the node, run pod2-agent cleanup and start the agent again: %w", dir, layoutVersion, err)
	}
	if err != nil {
		return nil, fmt.Errorf("load the data plane's programs into the kernel: %w", err)
	}
	return &Programs{Maps: Maps{c.Maps, dir}, collection: c}, nil
}

// versioned is the directory of dir that has the maps of this layout.
func versioned(dir string) string { return filepath.Join(dir, "v"+strconv.Itoa(layoutVersion)) }

// Open the maps that are pinned in a directory of dir, only to read them. It loads no program. The
// maps exist while the agent is stopped, too.
func Open(dir string) (*Maps, error) {
	s, err := spec()
	if err != nil {
		return nil, err
	}
	m := &Maps{map[string]*ebpf.Map{}, versioned(dir)}
	for name := range s.Maps {
		m.maps[name], err = ebpf.LoadPinnedMap(filepath.Join(m.dir, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if err == nil {
			continue
		}
		m.Close()
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("open the pinned map of %s in %s: are you root? %w", name, m.dir, err)
		}
		if others, _ := filepath.Glob(filepath.Join(dir, "v*")); len(others) > 0 && others[0] != m.dir {
			return nil, fmt.Errorf("no maps in %s, but in %s: run the pod2-agent of the release that made them: %w", m.dir, others[0], err)
		}
		return nil, fmt.Errorf("no maps in %s: pod2-agent has not run on this node since it booted, or this is not the node's BPF file system: %w", m.dir, err)
	}
	return m, nil
}

// Close releases the maps. They stay pinned.
func (m *Maps) Close() {
	for _, one := range m.maps {
		_ = one.Close()
	}
}

// Close releases the programs and maps. Those that are attached or pinned stay in the kernel.
func (p *Programs) Close() { p.collection.Close() }

// RemoveOthers removes the maps of other layouts. The kernel keeps those that an attached program uses.
func (p *Programs) RemoveOthers() error {
	_, err := removeLayouts(filepath.Dir(p.dir), p.dir)
	return err
}

// Unpin removes the pinned maps of all layouts, and the program of RefuseBypass, from a directory of Load, and the directory if
// it is empty then. It names the removed things. The kernel keeps the maps as long as a program is attached.
func Unpin(dir string) (removed []string, err error) {
	if removed, err = removeLayouts(dir, ""); err != nil {
		return removed, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
		return removed, fmt.Errorf("remove the directory of pinned maps: %w", err)
	}
	return removed, nil
}

// removeLayouts but one, and name the removed things. The directory may have maps of other programs.
func removeLayouts(dir, except string) (removed []string, err error) {
	layouts, err := filepath.Glob(filepath.Join(dir, "v[0-9]*"))
	if err != nil {
		return nil, fmt.Errorf("find pinned maps: %w", err)
	}
	for _, layout := range layouts {
		if layout == except || strings.Trim(filepath.Base(layout)[1:], "0123456789") != "" {
			continue
		}
		if pinned, _ := filepath.Glob(filepath.Join(layout, noBypass+"*")); len(pinned) > 0 {
			removed = append(removed, "the program "+noBypass)
		}
		if err := os.RemoveAll(layout); err != nil {
			return removed, fmt.Errorf("remove pinned maps: %w", err)
		}
		removed = append(removed, "the tables in "+layout)
	}
	return removed, nil
}
