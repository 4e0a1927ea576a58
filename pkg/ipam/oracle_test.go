package ipam

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// oracle is a second, simple implementation of Pool. It stores every address of a small
// CIDR with the reason why it is refused.
type oracle struct {
	addrs    []netip.Addr
	refusals []string // by address; "" if it may be handed out
	any      []bool   // by address: may be handed out to a pod that asks for any
}

func inOne(ranges []Range, a netip.Addr) bool {
	hit := false
	for _, r := range ranges {
		hit = hit || (a.Is4() == r.First.Is4() && number(r.First).Cmp(number(a)) <= 0 && number(a).Cmp(number(r.Last)) <= 0)
	}
	return hit
}

func newOracle(cidr netip.Prefix, gateway netip.Addr, exclude []Range, former []netip.Prefix, request []Range) oracle {
	var o oracle
	var excluded []bool
	for a := cidr.Masked().Addr(); cidr.Contains(a); a = a.Next() {
		o.addrs = append(o.addrs, a)
		excluded = append(excluded, inOne(exclude, a))
	}
	n := len(o.addrs)
	for i, a := range o.addrs {
		reason := ""
		switch {
		case n > 2 && i == 0 && a.Is4():
			reason = "is the network address"
		case n > 2 && i == 0:
			reason = "is the subnet-router anycast address"
		case n > 2 && i == n-1 && a.Is4():
			reason = "is the broadcast address"
		case a == gateway:
			reason = "is the gateway"
		case formerly(cidr, former, a) != "":
			reason = formerly(cidr, former, a)
		case excluded[i]:
			first, last := i, i
			for first > 0 && excluded[first-1] {
				first--
			}
			for last < n-1 && excluded[last+1] {
				last++
			}
			reason = "is excluded by " + o.addrs[first].String()
			if first != last {
				reason += "-" + o.addrs[last].String()
			}
		}
		o.refusals = append(o.refusals, reason)
		o.any = append(o.any, reason == "" && !inOne(request, a))
	}
	return o
}

// formerly names the role of an address in the first former CIDR in which it had one.
func formerly(cidr netip.Prefix, former []netip.Prefix, a netip.Addr) string {
	for _, c := range former {
		if c.Addr().Is4() != a.Is4() || c.Bits() <= cidr.Bits() {
			continue
		}
		hostBits := c.Addr().BitLen() - c.Bits()
		offset := new(big.Int).Sub(number(a), number(c.Masked().Addr()))
		switch last := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(hostBits)), big.NewInt(1)); {
		case hostBits < 2:
		case offset.Sign() == 0 && a.Is4():
			return "was the network address in " + c.Masked().String() + ", a former CIDR"
		case offset.Sign() == 0:
			return "was the subnet-router anycast address in " + c.Masked().String() + ", a former CIDR"
		case offset.Cmp(last) == 0 && a.Is4():
			return "was the broadcast address in " + c.Masked().String() + ", a former CIDR"
		}
	}
	return ""
}

// disagreement returns the first difference between p and the oracle, or "".
func (o oracle) disagreement(p Pool) string {
	var capacity, forAny int64
	next := "none"
	end := -1 // of the addresses from a on that may all be handed out
	for i := len(o.addrs) - 1; i >= 0; i-- {
		a := o.addrs[i]
		if got := p.Refusal(a); got != o.refusals[i] {
			return fmt.Sprintf("Refusal(%s) = %q, want %q", a, got, o.refusals[i])
		}
		if o.refusals[i] == "" {
			capacity++
		}
		if o.any[i] {
			forAny++
			next = a.String()
			end = max(end, i)
		} else {
			end = -1
		}
		if end >= 0 && !p.HasAll(Range{a, o.addrs[end]}) {
			return fmt.Sprintf("HasAll(%s-%s) = false", a, o.addrs[end])
		}
		if beyond := max(i, end+1); beyond < len(o.addrs) && beyond != end && p.HasAll(Range{a, o.addrs[beyond]}) {
			return fmt.Sprintf("HasAll(%s-%s) = true", a, o.addrs[beyond])
		}
		if got := render(p.Next(a)); got != next {
			return fmt.Sprintf("Next(%s) = %s, want %s", a, got, next)
		}
	}
	if got := render(p.First()); got != next {
		return fmt.Sprintf("First() = %s, want %s", got, next)
	}
	if below := o.addrs[0].Prev(); below.IsValid() {
		if got := render(p.Next(below)); got != next {
			return fmt.Sprintf("Next(%s) = %s, want %s", below, got, next)
		}
	}
	if got := render(p.Next(o.addrs[len(o.addrs)-1].Next())); got != "none" {
		return fmt.Sprintf("Next above the CIDR = %s, want none", got)
	}
	if got := p.Capacity(); got != capacity {
		return fmt.Sprintf("Capacity() = %d, want %d", got, capacity)
	}
	if got := p.ForAny(); got != forAny {
		return fmt.Sprintf("ForAny() = %d, want %d", got, forAny)
	}
	return ""
}

func render(a netip.Addr, ok bool) string {
	if !ok {
		return "none"
	}
	return a.String()
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// offset returns the address n above a, limited to the ends of the family.
func offset(a netip.Addr, n int64) netip.Addr {
	size := a.BitLen() / 8
	sum := new(big.Int).Add(number(a), big.NewInt(n))
	top := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(a.BitLen())), big.NewInt(1))
	if sum.Sign() < 0 {
		sum.SetInt64(0)
	} else if sum.Cmp(top) > 0 {
		sum = top
	}
	b, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, size)))
	return b
}

func TestPoolAgainstOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	bases := []string{
		"0.0.0.0", "10.0.0.0", "10.0.16.0", "255.255.255.255",
		"::", "fd00::", "fd00::ffff:ffff:ffff:f800", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	}
	for round := range 1000 {
		base := netip.MustParseAddr(bases[dice.IntN(len(bases))])
		hostBits := dice.IntN(13)
		cidr, err := base.Prefix(base.BitLen() - hostBits)
		if err != nil {
			t.Fatal(err)
		}
		// Offsets may lie below and above the CIDR.
		size := int64(1) << hostBits
		somewhere := func(first netip.Addr) netip.Addr { return offset(first, dice.Int64N(size+16)-8) }
		var gateway netip.Addr
		if dice.IntN(4) > 0 {
			gateway = somewhere(cidr.Addr())
		}
		ranges := func() (rs []Range) {
			for range dice.IntN(8) {
				first := cidr.Addr()
				if dice.IntN(8) == 0 {
					first = netip.MustParseAddr(bases[dice.IntN(len(bases))]) // often of the other family
				}
				r := Range{First: somewhere(first)}
				r.Last = offset(r.First, dice.Int64N(1+size/int64(1+dice.IntN(16))))
				rs = append(rs, r)
			}
			return rs
		}
		exclude, request := ranges(), ranges()
		var former []netip.Prefix
		for range dice.IntN(4) {
			inside := offset(cidr.Addr(), dice.Int64N(size))
			former = append(former, netip.PrefixFrom(inside, inside.BitLen()-dice.IntN(hostBits+1)))
		}
		p := NewPool(cidr, gateway, exclude).Formerly(former).OnRequest(request)
		if why := newOracle(cidr, gateway, exclude, former, request).disagreement(p); why != "" {
			t.Fatalf("seed %d, round %d: %s, gateway %s, exclude %s, former %s, on request %s: %s", seed, round, cidr, gateway, exclude, former, request, why)
		}
	}
}
