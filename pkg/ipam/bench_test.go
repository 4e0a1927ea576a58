package ipam

import (
	"net/netip"
	"testing"
)

// The same exclusions, in CIDRs of 2^8, 2^24 and 2^64 addresses.
var sizes = []string{"10.0.0.0/24", "10.0.0.0/8", "fd00::/64"}

func everyFourth(cidr netip.Prefix) []Range {
	var rs []Range
	a := cidr.Addr()
	for i := range 252 {
		if a = a.Next(); i%4 == 0 {
			rs = append(rs, Range{a, a})
		}
	}
	return rs
}

// A test cannot check time, but it can check memory.
func TestMemoryDoesNotDependOnTheSize(t *testing.T) {
	var want float64
	for i, s := range sizes {
		cidr := netip.MustParsePrefix(s)
		exclude := everyFourth(cidr)
		got := testing.AllocsPerRun(10, func() { NewPool(cidr, cidr.Addr().Next(), exclude).Capacity() })
		if i == 0 {
			want = got
		}
		if got != want {
			t.Errorf("NewPool of %s allocates %v times, of %s %v times", s, got, sizes[0], want)
		}
	}
}

func BenchmarkNewPool(b *testing.B) {
	for _, s := range sizes {
		cidr := netip.MustParsePrefix(s)
		exclude := everyFourth(cidr)
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewPool(cidr, cidr.Addr().Next(), exclude).Capacity()
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	for _, s := range sizes {
		cidr := netip.MustParsePrefix(s)
		p := NewPool(cidr, cidr.Addr().Next(), everyFourth(cidr))
		from := everyFourth(cidr)[40].First
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Next(from)
			}
		})
	}
}
