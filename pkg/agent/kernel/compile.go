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

// field is a part of a packet that a rule matches.
type field struct {
	load   expr.Any
	size   uint32
	family byte // the IP family that a packet must have
}

func meta(key expr.MetaKey, size uint32) field { return field{load: &expr.Meta{Key: key}, size: size} }

func payload(base expr.PayloadBase, offset, size uint32, family byte) field {
	return field{&expr.Payload{Base: base, Offset: offset, Len: size}, size, family}
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

// compile a rule of an inet table. Its comment stays part of the text only.
func compile(rule string) ([]expr.Any, error) {
	c := &compiler{words: strings.Fields(rule)}
	for len(c.words) > 0 {
		if err := c.statement(); err != nil {
			return nil, fmt.Errorf("rule %q, before %q: %w", rule, strings.Join(c.words, " "), err)
		}
	}
	return c.out, nil
}

func (c *compiler) emit(e ...expr.Any) { c.out = append(c.out, e...) }

// take the words if they come next.
func (c *compiler) take(phrase string) bool {
	want := strings.Fields(phrase)
	if len(c.words) < len(want) || strings.Join(c.words[:len(want)], " ") != phrase {
		return false
	}
	c.words = c.words[len(want):]
	return true
}

func (c *compiler) next() (word string) {
	if len(c.words) > 0 {
		word, c.words = c.words[0], c.words[1:]
	}
	return word
}

func (c *compiler) statement() error {
	switch {
	case c.take("accept"):
		c.emit(&expr.Verdict{Kind: expr.VerdictAccept})
	case c.take("drop"):
		c.emit(&expr.Verdict{Kind: expr.VerdictDrop})
	case c.take("counter"):
		c.emit(&expr.Counter{})
	case c.take("notrack"):
		c.emit(&expr.Notrack{})
	case c.take("masquerade"):
		c.emit(&expr.Masq{})
	case c.take("comment"):
		c.next()
	case c.take("ct state established,related"):
		c.state(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	case c.take("ct state new,established,related"):
		c.state(expr.CtStateBitNEW | expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	case c.take("fib saddr . iif oif missing"):
		c.emit(&expr.Fib{Register: unix.NFT_REG_1, FlagSADDR: true, FlagIIF: true, ResultOIF: true, FlagPRESENT: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: make([]byte, 4)})
	case c.take("tcp flags syn"):
		c.emit(&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1, DestRegister: unix.NFT_REG_1})
		c.masked([]byte{1 << 1}, expr.CmpOpNeq, make([]byte, 1))
	case c.take("tcp option maxseg size set rt mtu"):
		c.emit(&expr.Rt{Register: unix.NFT_REG_1, Key: expr.RtTCPMSS},
			&expr.Byteorder{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Op: expr.ByteorderHton, Len: 2, Size: 2},
			&expr.Exthdr{SourceRegister: unix.NFT_REG_1, Op: expr.ExthdrOpTcpopt, Type: 2, Offset: 2, Len: 2})
	case c.take("ct state untracked"):
		c.state(expr.CtStateBitUNTRACKED)
	default:
		return c.match()
	}
	return nil
}

// state matches a conntrack state that is one of the bits.
func (c *compiler) state(bits uint32) {
	c.emit(&expr.Ct{Key: expr.CtKeySTATE, Register: unix.NFT_REG_1})
	c.masked(binary.NativeEndian.AppendUint32(nil, bits), expr.CmpOpNeq, make([]byte, 4))
}

func (c *compiler) masked(mask []byte, op expr.CmpOp, data []byte) {
	c.emit(&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask))},
		&expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: data})
}

// match compiles fields that are joined by "." and a set, or one field and its value.
func (c *compiler) match() error {
	var offset uint32
	var last string
	var loads []expr.Any
	for {
		name, f, err := c.field()
		if err != nil {
			return err
		}
		if f.family != 0 {
			c.emit(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: unix.NFT_REG_1}, &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{f.family}})
		}
		switch load := f.load.(type) {
		case *expr.Meta:
			loads = append(loads, &expr.Meta{Key: load.Key, Register: register(offset)})
		case *expr.Payload:
			p := *load
			p.DestRegister = register(offset)
			loads = append(loads, &p)
		}
		last, offset = name, offset+(f.size+3)&^3
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

func (c *compiler) field() (string, field, error) {
	for n := min(3, len(c.words)); n > 0; n-- {
		name := strings.Join(c.words[:n], " ")
		if f, ok := fields[name]; ok {
			c.words = c.words[n:]
			return name, f, nil
		}
	}
	return "", field{}, fmt.Errorf("unknown field or statement")
}

func (c *compiler) compare(name string, op expr.CmpOp, value string) error {
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
		c.masked(mask, op, prefix.Masked().Addr().AsSlice())
		return nil
	} else if number, err := strconv.ParseUint(value, 10, 24); err == nil && name == "@th,96,24" {
		data = binary.BigEndian.AppendUint32(nil, uint32(number))[1:]
	} else if port, err := strconv.ParseUint(value, 10, 16); err == nil && name == "th dport" {
		data = binary.BigEndian.AppendUint16(nil, uint16(port))
	} else {
		return fmt.Errorf("%s does not accept the value %q", name, value)
	}
	c.emit(&expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: data})
	return nil
}
