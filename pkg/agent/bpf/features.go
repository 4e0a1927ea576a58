//go:build linux

package bpf

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

// Missing names the helpers that the programs call and this kernel lacks, such as "bpf_redirect_peer". Every kernel that
// has them has the kinds of maps, too.
func Missing() ([]string, error) {
	s, err := spec()
	if err != nil {
		return nil, err
	}
	return missing(s), nil
}

func missing(s *ebpf.CollectionSpec) (names []string) {
	for _, p := range s.Programs {
		for _, i := range p.Instructions {
			if helper := asm.BuiltinFunc(i.Constant); i.IsBuiltinCall() && errors.Is(features.HaveProgramHelper(p.Type, helper), ebpf.ErrNotSupported) {
				names = append(names, helperName(helper))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var capital = regexp.MustCompile(`[A-Z]`)

// helperName is the kernel's name: "bpf_redirect_peer" for "FnRedirectPeer" of the library.
func helperName(f asm.BuiltinFunc) string {
	return "bpf" + capital.ReplaceAllStringFunc(strings.TrimPrefix(f.String(), "Fn"), func(c string) string { return "_" + strings.ToLower(c) })
}
