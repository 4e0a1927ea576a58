package ipam

import (
	"net/netip"
	"strings"
	"testing"
)

func TestBlock(t *testing.T) {
	for _, tt := range []struct{ addr, want string }{
		{"192.168.0.0", "192.168.0.0/24 blue-192.168.0.0"},
		{"192.168.0.255", "192.168.0.0/24 blue-192.168.0.0"},
		{"192.168.1.0", "192.168.1.0/24 blue-192.168.1.0"},
		{"2001:db8::ff", "2001:db8::/120 blue-2001-0db8-0000-0000-0000-0000-0000-0000"},
		{"2001:db8::1ff", "2001:db8::100/120 blue-2001-0db8-0000-0000-0000-0000-0000-0100"},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			b := Block(netip.MustParseAddr(tt.addr))
			if got := b.String() + " " + BlockName("blue", b); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestBlockHoldsBlockSizeAddresses(t *testing.T) {
	for _, a := range []string{"10.1.2.3", "fd00::1:2:3"} {
		b := Block(netip.MustParseAddr(a))
		if got := (Range{b.Addr(), LastOf(b)}).size(); got != BlockSize {
			t.Errorf("block %s holds %d addresses, want %d", b, got, BlockSize)
		}
	}
}

func TestBlockOfNoAddress(t *testing.T) {
	if b := Block(netip.Addr{}); b.IsValid() {
		t.Errorf("the zero Addr is in block %s", b)
	}
}

// The numbers in the doc of BlockName: a name has at most 253 characters.
func TestBlockNameFits(t *testing.T) {
	name := BlockName(strings.Repeat("n", 213), Block(netip.MustParseAddr("fd00::1")))
	if len(name) != 253 {
		t.Errorf("the longest name has %d characters, want 253", len(name))
	}
}

func TestMAC(t *testing.T) {
	for _, tt := range []struct{ addr, want string }{
		{"192.168.0.2", "0a:58:c0:a8:00:02"},
		{"fd00::1:203:a0b", "0a:58:02:03:0a:0b"},
	} {
		if got := MAC(netip.MustParseAddr(tt.addr)); got != tt.want {
			t.Errorf("MAC(%s): got %s, want %s", tt.addr, got, tt.want)
		}
	}
}
