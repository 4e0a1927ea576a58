//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// wirePrograms are the programs on interfaces that lead to other nodes. The kernel keeps the names.
var wirePrograms = map[ebpf.AttachType]string{ebpf.AttachTCXIngress: "from_wire", ebpf.AttachTCXEgress: "to_wire"}

// attachFirst attaches the programs of a wire by tcx, before all others there. Others may accept a packet, or send those of
// their pods with the node's address past its filter, as Cilium does: then later programs do not see it. It
// returns false on a kernel without tcx, which Linux has from 6.6 on.
func (p *Programs) attachFirst(index int) (done bool, err error) {
	for direction, name := range wirePrograms {
		attached := false
		options := link.RawAttachProgramOptions{Target: index, Attach: direction, Program: p.collection.Programs[name], Anchor: link.Head()}
		err := eachByTCX(index, direction, func(position int, old *ebpf.Program) (err error) {
			if position > 0 {
				return detachTCX(index, direction, old) // another one was put before it
			}
			attached = true
			replace := options
			replace.Anchor = link.ReplaceProgram(old)
			if err := link.RawAttachProgram(replace); !errors.Is(err, unix.EEXIST) { // it is the same program
				return err
			}
			return nil
		})
		if errors.Is(err, unix.EINVAL) {
			return false, nil
		}
		if err == nil && !attached {
			err = link.RawAttachProgram(options)
		}
		if err != nil {
			return false, fmt.Errorf("attach %s to interface %d by tcx: %w", name, index, err)
		}
	}
	return true, nil
}

// eachByTCX calls f with each program of the agent that an interface has by tcx, and its position among all. It
// begins with the last: the kernel does not replace a program by one that the interface has already.
func eachByTCX(index int, direction ebpf.AttachType, f func(position int, program *ebpf.Program) error) error {
	all, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: direction})
	if err != nil {
		return fmt.Errorf("list the tcx programs: %w", err)
	}
	for position, one := range slices.Backward(all.Programs) {
		program, err := ebpf.NewProgramFromID(one.ID)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("open the tcx program %d: %w", one.ID, err)
		}
		info, err := program.Info()
		if err == nil && info.Name == wirePrograms[direction] {
			err = f(position, program)
		}
		_ = program.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func detachTCX(index int, direction ebpf.AttachType, program *ebpf.Program) error {
	return link.RawDetachProgram(link.RawDetachProgramOptions{Target: index, Attach: direction, Program: program})
}
