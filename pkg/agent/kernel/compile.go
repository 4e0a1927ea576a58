//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// statements without a value. Rules share these expressions, so nobody may change them.
var statements = map[string][]expr.Any{
	"accept":                           {&expr.Verdict{Kind: expr.VerdictAccept}},
	"drop":                             {&expr.Verdict{Kind: expr.VerdictDrop}},
	"counter":                          {&expr.Counter{}},
	"notrack":                          {&expr.Notrack{}},
	"masquerade":                       {&expr.Masq{}},
	"ct state untracked":               state(expr.CtStateBitUNTRACKED),
	"ct state established,related":     state(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
	"ct state new,established,related": state(expr.CtStateBitNEW | expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
	"fib saddr . iif oif missing": {
		&expr.Fib{Register: unix.NFT_REG_1, FlagSADDR: true, FlagIIF: true, ResultOIF: true, FlagPRESENT: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: make([]byte, 4)},
	},
	"tcp flags syn": append(
		[]expr.Any{&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1, DestRegister: unix.NFT_REG_1}},
		masked([]byte{1 << 1}, expr.CmpOpNeq, make([]byte, 1))...),
	"tcp option maxseg size set rt mtu": {
		&expr.Rt{Register: unix.NFT_REG_1, Key: expr.RtTCPMSS},
		&expr.Byteorder{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Op: expr.ByteorderHton, Len: 2, Size: 2},
		&expr.Exthdr{SourceRegister: unix.NFT_REG_1, Op: expr.ExthdrOpTcpopt, Type: 2, Offset: 2, Len: 2},
	},
}

// state matches a conntrack state that is one of the bits.
func state(bits uint32) []expr.Any {
	return append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: unix.NFT_REG_1}},
		masked(binary.NativeEndian.AppendUint32(nil, bits), expr.CmpOpNeq, make([]byte, 4))...)
}

// masked compares the bits of the mask.
func masked(mask []byte, op expr.CmpOp, data []byte) []expr.Any {
	return []expr.Any{&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask))},
		&expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: data}}
}

// field is a part of a packet that a rule matches.
type field struct {
	load   func(register uint32) expr.Any
	size   uint32
	family byte // the IP family that a packet must have
}

func meta(key expr.MetaKey, size uint32) field {
	return field{load: func(register uint32) expr.Any { return &expr.Meta{Key: key, Register: register} }, size: size}
}

func payload(base expr.PayloadBase, offset, size uint32, family byte) field {
	return field{func(register uint32) expr.Any {
		return &expr.Payload{Base: base, Offset: offset, Len: size, DestRegister: register}
	}, size, family}
}

// fields, with the size and offset of each.
var fields = map[string]field{
	"iifname":      meta(expr.MetaKeyIIFNAME, unix.IFNAMSIZ),
	"oifname":      meta(expr.MetaKeyOIFNAME, unix.IFNAMSIZ),
	"meta l4proto": meta(expr.MetaKeyL4PROTO, 1),
	"ip saddr":     payload(expr.PayloadBaseNetworkHeader, 12, 4, unix.NFPROTO_IPV4),
	"ip daddr":     payload(expr.PayloadBaseNetworkHeader, 16, 4, unix.NFPROTO_IPV4),
	"ip6 saddr":    payload(expr.PayloadBaseNetworkHeader, 8, 16, unix.NFPROTO_IPV6),
	"ip6 daddr":    payload(expr.PayloadBaseNetworkHeader, 24, 16, unix.NFPROTO_IPV6),
	"@th,96,24":    payload(expr.PayloadBaseTransportHeader, 12, 3, 0), // follows a port
	"th dport":     payload(expr.PayloadBaseTransportHeader, 2, 2, 0),  // follows a protocol
}

// words are names of numbers.
var words = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP}

// register of nft that begins at that byte; each fourth has a name of its own.
func register(offset uint32) uint32 {
	if offset%16 == 0 {
		return unix.NFT_REG_1 + offset/16
	}
	return unix.NFT_REG32_00 + offset/4
}

// compiler turns the words of a rule into expressions. It knows only the words that
// package dataplane uses.
type compiler struct {
	words []string
	out   []expr.Any
}

// compile a rule of an inet table, without its comment.
func compile(rule string) ([]expr.Any, error) {
	c := &compiler{words: strings.Fields(rule)}
	for len(c.words) > 0 {
		if list, ok := phrase(c, statements); ok {
			c.emit(list...)
		} else if c.take("goto") {
			c.emit(&expr.Verdict{Kind: expr.VerdictGoto, Chain: c.next()})
		} else if err := c.match(); err != nil {
			return nil, fmt.Errorf("rule %q, before %q: %w", rule, strings.Join(c.words, " "), err)
		}
	}
	return c.out, nil
}

func (c *compiler) emit(e ...expr.Any) { c.out = append(c.out, e...) }

// phrase takes the longest phrase of a table that comes next.
func phrase[T any](c *compiler, table map[string]T) (value T, ok bool) {
	for n := len(c.words); n > 0 && !ok; n-- {
		if value, ok = table[strings.Join(c.words[:n], " ")]; ok {
			c.words = c.words[n:]
		}
	}
	return value, ok
}

// take the word if it comes next.
func (c *compiler) take(word string) bool {
	if len(c.words) == 0 || c.words[0] != word {
		return false
	}
	c.words = c.words[1:]
	return true
}

func (c *compiler) next() (word string) {
	if len(c.words) > 0 {
		word, c.words = c.words[0], c.words[1:]
	}
	return word
}

// match compiles fields that are joined by "." and a set, or one field and its value.
func (c *compiler) match() error {
	var offset uint32
	var last field
	var loads []expr.Any
	for {
		f, ok := phrase(c, fields)
		if !ok {
			return errors.New("unknown field or statement")
		}
		if f.family != 0 {
			c.emit(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: unix.NFT_REG_1}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{f.family}})
		}
		loads = append(loads, f.load(register(offset)))
		last, offset = f, offset+(f.size+3)&^3
		if !c.take(".") {
			break
		}
	}
	c.emit(loads...)
	op := expr.CmpOpEq
	if c.take("!=") {
		op = expr.CmpOpNeq
	} else if c.take(">=") {
		op = expr.CmpOpGte
	}
	value := c.next()
	set, ok := strings.CutPrefix(value, "@")
	if !ok {
		return c.compare(last, op, value)
	}
	if op != expr.CmpOpEq {
		return errors.New("a set takes no operator")
	}
	c.emit(&expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: set})
	return nil
}

func (c *compiler) compare(f field, op expr.CmpOp, value string) error {
	var data []byte
	if interfaceName, err := strconv.Unquote(value); err == nil {
		prefix, wild := strings.CutSuffix(interfaceName, "*")
		if data = []byte(prefix); !wild {
			data = append(data, make([]byte, unix.IFNAMSIZ-len(prefix))...)
		}
	} else if word, ok := words[value]; ok {
		data = []byte{word}
	} else if ip, err := netip.ParseAddr(value); err == nil {
		data = ip.AsSlice()
	} else if prefix, err := netip.ParsePrefix(value); err == nil {
		mask := make([]byte, prefix.Addr().BitLen()/8)
		for i := range prefix.Bits() {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		c.emit(masked(mask, op, prefix.Masked().Addr().AsSlice())...)
		return nil
	} else if number, err := strconv.ParseUint(value, 10, int(8*f.size)); err == nil {
		data = binary.BigEndian.AppendUint64(nil, number)[8-f.size:]
	} else {
		return fmt.Errorf("the field does not accept the value %q", value)
	}
	c.emit(&expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: data})
	return nil
}
