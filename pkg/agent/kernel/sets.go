//go:build linux

package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables"
)

var datatypes = map[string]nftables.SetDatatype{
	"ipv4_addr": nftables.TypeIPAddr, "ipv6_addr": nftables.TypeIP6Addr, "inet_service": nftables.TypeInetService,
}

func newSet(table *nftables.Table, name, kind string) (*nftables.Set, error) {
	var parts []nftables.SetDatatype
	for part := range strings.SplitSeq(kind, " . ") {
		t, ok := datatypes[part]
		if !ok {
			return nil, fmt.Errorf("set %s: unknown type: %q", name, part)
		}
		parts = append(parts, t)
	}
	set := &nftables.Set{Table: table, Name: name, KeyType: parts[0]}
	if len(parts) > 1 {
		set.KeyType = nftables.MustConcatSetType(parts...)
	}
	return set, nil
}

// elementKey of an element in the syntax of nft. Each joined part takes whole registers.
func elementKey(kind, text string) ([]byte, error) {
	kinds, parts := strings.Split(kind, " . "), strings.Split(text, " . ")
	if len(kinds) != len(parts) {
		return nil, fmt.Errorf("its number of parts differs from that of type %s", kind)
	}
	var key []byte
	for i, part := range parts {
		var b []byte
		switch kinds[i] {
		case "inet_service":
			port, err := strconv.ParseUint(part, 10, 16)
			if err != nil {
				return nil, err
			}
			b = binary.BigEndian.AppendUint16(nil, uint16(port))
		default:
			ip, err := netip.ParseAddr(part)
			if err != nil {
				return nil, fmt.Errorf("%s is not of type %s: %w", part, kinds[i], err)
			}
			if uint32(ip.BitLen()/8) != datatypes[kinds[i]].Bytes {
				return nil, fmt.Errorf("%s is not of type %s: it belongs to the other family", part, kinds[i])
			}
			b = ip.AsSlice()
		}
		for key = append(key, b...); len(kinds) > 1 && len(key)%4 != 0; {
			key = append(key, 0)
		}
	}
	return key, nil
}
