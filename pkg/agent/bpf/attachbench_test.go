//go:build linux && kernel

package bpf

import (
	"slices"
	"testing"
)

// A resync attaches the programs of all ports again, while requests of pods wait.
func BenchmarkAttachPorts(b *testing.B) {
	p, err := Load(bpffs(b))
	must(b, err)
	defer p.Close()
	must(b, in(newNamespace(b), func() error {
		if err := ports(slices.Repeat([]string{"clsact"}, 400)...); err != nil {
			return err
		}
		var indexes []int
		for i := range 400 {
			indexes = append(indexes, 10+i)
		}
		for b.Loop() {
			if errs := p.AttachPorts(indexes); len(errs) > 0 {
				return errs[0]
			}
		}
		return nil
	}))
}
