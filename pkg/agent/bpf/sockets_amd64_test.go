//go:build linux && kernel

package bpf

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of 32-bit programs, which any program can make, are refused, too.
func TestNoBypassOf32Bits(t *testing.T) {
	n := newLab(t, false).nodes[0]
	bypass := func() error {
		return setOption(unix.AF_PACKET, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, setsockopt32)
	}
	must(t, in(n.ns, bypass))
	n.refuseBypass(t)
	if err := in(n.ns, bypass); !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v, want %v", err, unix.EPERM)
	}
}

// setsockopt32 is setsockopt by the interrupt for system calls of 32 bits. Its code and the value are at addresses of 32 bits.
func setsockopt32(socket, level, option int, value []byte) unix.Errno {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_32BIT)
	if err != nil {
		panic(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	at := uintptr(unsafe.Pointer(&page[0]))
	const data = 2048
	copy(page[data:], value)
	code := []byte{0x53} // push rbx
	for i, number := range []int{366, socket, level, option, int(at) + data, len(value)} {
		code = append(code, []byte{0xb8, 0xbb, 0xb9, 0xba, 0xbe, 0xbf}[i]) // mov to eax, ebx, ecx, edx, esi, edi
		code = binary.LittleEndian.AppendUint32(code, uint32(number))
	}
	copy(page, append(code, 0xcd, 0x80, 0x5b, 0xc3)) // int 0x80; pop rbx; ret
	entry := &at
	return unix.Errno(-(*(*func() int32)(unsafe.Pointer(&entry)))())
}
