//go:build linux && kernel

package bpf

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
)

func TestSupportedKernelMissesNothing(t *testing.T) {
	got, err := Missing()
	if must(t, err); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// No kernel lets programs of tc call this helper.
func TestMissingIsNamed(t *testing.T) {
	s, err := spec()
	must(t, err)
	for range 2 {
		s.Programs["from_port"].Instructions = append(s.Programs["from_port"].Instructions, asm.FnOverrideReturn.Call())
	}
	if got, want := missing(s), []string{"bpf_override_return"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
