//go:build linux && kernel

package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The system calls of 32-bit programs, which any program can start, are refused, too.
func TestNoBypassOf32Bits(t *testing.T) {
	n := newLab(t, false).nodes[0]
	program := filepath.Join(t.TempDir(), "bypass")
	must(t, os.WriteFile(program, program32(bypass32), 0o700))
	bypass := func() error { return runWithSocket(program) }
	err := in(n.ns, bypass)
	if _, killed := errors.AsType[*exec.ExitError](err); killed || errors.Is(err, unix.ENOEXEC) {
		t.Skipf("this kernel runs no 32-bit programs (ia32_emulation=0): %v", err)
	}
	must(t, err)
	n.refuseBypass(t)
	if err := in(n.ns, bypass); !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v, want %v", err, unix.EPERM)
	}
}

// runWithSocket runs a program whose file 3 is a packet socket of this network namespace. The program exits with an errno.
func runWithSocket(program string) error {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(socket), "socket")
	defer file.Close()
	command := exec.Command(program)
	command.ExtraFiles = []*os.File{file}
	err = command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return unix.Errno(exit.ExitCode())
	}
	return err
}

const base32 = 0x10000 // where programs are in memory

// bypass32 is setsockopt(3, SOL_PACKET, PACKET_QDISC_BYPASS, base32, 4), then exit(errno). The value at base32 is not 0: it
// is the start of the ELF file.
var bypass32 = []any{
	byte(0xb8), uint32(366), // mov eax, setsockopt
	byte(0xbb), uint32(3), // mov ebx, the first of ExtraFiles
	byte(0xb9), uint32(unix.SOL_PACKET), // mov ecx
	byte(0xba), uint32(unix.PACKET_QDISC_BYPASS), // mov edx
	byte(0xbe), uint32(base32), // mov esi
	byte(0xbf), uint32(4), // mov edi
	[]byte{0xcd, 0x80},    // int 0x80
	[]byte{0xf7, 0xd8},    // neg eax
	[]byte{0x89, 0xc3},    // mov ebx, eax
	byte(0xb8), uint32(1), // mov eax, exit
	[]byte{0xcd, 0x80}, // int 0x80
}

// program32 is the file of a 32-bit program that consists of these instructions.
func program32(instructions []any) []byte {
	var header elf.Header32
	var segment elf.Prog32
	start := uint32(binary.Size(header) + binary.Size(segment))
	header = elf.Header32{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(elf.EM_386),
		Version: uint32(elf.EV_CURRENT),
		Entry:   base32 + start,
		Phoff:   uint32(binary.Size(header)), Phentsize: uint16(binary.Size(segment)), Phnum: 1,
		Ehsize: uint16(binary.Size(header)),
	}
	segment = elf.Prog32{Type: uint32(elf.PT_LOAD), Vaddr: base32, Filesz: 4096, Memsz: 4096, Flags: uint32(elf.PF_R | elf.PF_X)}
	var file bytes.Buffer
	for _, part := range append([]any{header, segment}, instructions...) {
		_ = binary.Write(&file, binary.LittleEndian, part) // never fails: the parts have fixed sizes
	}
	return append(file.Bytes(), make([]byte, 4096-file.Len())...)
}
