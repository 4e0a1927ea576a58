package network

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ipam"
)

// tally counts the entries of the working copy, in the Network's own AddressBlocks only.
type tally struct {
	bound, reserved, resting int64
	// taken have an entry; without it, any pod could get them. The fields below count
	// only such addresses.
	taken int64
	// rests are Resting; the first ends at restsUntil.
	rests      int64
	restsUntil time.Time
	// leaves are reserved for scaled-down replicas and have not rested yet; the first has at
	// leavesFrom.
	leaves     int64
	leavesFrom time.Time
	// left are reserved for scaled-down replicas and have rested: other pods can get them.
	left int64
	// away are reserved for other replicas that do not run now.
	away int64
	// former are in AddressBlocks of an earlier Network with this name. They have no entry that counts.
	former int64
}

// tally counts once. Call it when the working copy has its final state.
func (v *view) tally() *tally {
	if v.counted == nil {
		v.counted = &tally{}
		for _, p := range v.ledger.pages {
			switch {
			case p.ours:
				v.counted.add(v, p)
			case v.network != nil && v.poolErr == nil && !v.mayInherit(p):
				v.counted.former += v.inPool(p)
			}
		}
	}
	return v.counted
}

// opens says whether the next sync has free addresses of an AddressBlock that takes no entry now: it is empty and about
// to be deleted, or about to get its owner reference back. It looks once, because thousands of pods may wait.
func (v *view) opens() bool {
	if v.opening == nil {
		v.opening = ptr.To(slices.ContainsFunc(v.ledger.pages, func(p *page) bool {
			return (p.retires() || v.unowned(p)) && v.inPool(p) > int64(len(p.entries))
		}))
	}
	return *v.opening
}

// inPool counts the addresses of a page that any pod could get without it.
func (v *view) inPool(p *page) (n int64) {
	for addr, ok := v.pool.Next(p.prefix.Addr()); ok && p.prefix.Contains(addr); addr, ok = v.pool.Next(addr.Next()) {
		n++
	}
	return n
}

func (c *tally) add(v *view, p *page) {
	if p.untouched() && v.pool.HasAll(ipam.Range{First: p.entries[0].addr, Last: p.entries[len(p.entries)-1].addr}) {
		c.bound += int64(len(p.entries))
		c.taken += int64(len(p.entries))
		return
	}
	for i := range p.entries {
		e := &p.entries[i]
		forAny := v.pool.Has(e.addr)
		if forAny {
			c.taken++
		}
		switch e.State {
		case v1.AddressBound:
			c.bound++
		case v1.AddressReserved:
			c.reserved++
			if forAny {
				c.addReserved(v, e, p.open)
			}
		case v1.AddressResting:
			c.resting++
			if forAny {
				c.rests++
				earliest(&c.restsUntil, e.Since.Add(v.delay))
			}
		}
	}
}

func (c *tally) addReserved(v *view, e *entry, open bool) {
	switch {
	case !open || !v.scaledAway(e):
		c.away++
	case !v.rested(e):
		c.leaves++
		earliest(&c.leavesFrom, e.Since.Add(v.delay))
	default:
		c.left++
	}
}

func earliest(first *time.Time, t time.Time) {
	if first.IsZero() || t.Before(*first) {
		*first = t
	}
}

// exhaustedText tells a pod that no address is free for it. The message for the first
// pods has numbers. These change whenever a pod is created or deleted, and thousands of
// pods may wait. So the message for the others refers to the Network's condition.
func (v *view) exhaustedText(before int) string {
	if before >= podEvents {
		return fmt.Sprintf("Network %q has no free address; its condition AddressesAvailable says why and how to fix it", v.name)
	}
	return fmt.Sprintf("Network %q has no free address%s", v.name, v.shortage("its spec.cidr"))
}

// shortage completes a sentence that says that no address is free: it says where the
// addresses are and how the user can fix the shortage. It uses points in time, because
// these do not change.
func (v *view) shortage(cidr string) string {
	c := v.tally()
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	var told []string
	tell := func(n int64, one, many string) {
		switch {
		case n == 1:
			told = append(told, "1 address is "+one)
		case n > 1:
			told = append(told, fmt.Sprintf("%d addresses are %s", n, many))
		}
	}
	tell(c.rests, "resting until "+at(c.restsUntil), "resting, the first until "+at(c.restsUntil))
	tell(c.leaves, "reserved for a scaled-down replica and can be reassigned from "+at(c.leavesFrom)+" on",
		"reserved for scaled-down replicas; the first can be reassigned from "+at(c.leavesFrom)+" on")
	tell(c.away, "reserved for a replica that does not run now", "reserved for replicas that do not run now")
	former := "in an AddressBlock of an earlier Network with this name until its pods terminate"
	tell(c.former, former, former)
	if v.pool.Capacity() == math.MaxInt64 { // or more
		told = append(told, "All other addresses are only for pods that ask for them (spec.onRequest)")
	} else {
		tell(v.pool.Capacity()-v.pool.ForAny(), "only for a pod that asks for it (spec.onRequest)", "only for pods that ask for them (spec.onRequest)")
	}

	var remedies []string
	if c.rests+c.leaves+c.former > 0 {
		remedies = append(remedies, "wait")
	}
	if grows(v.cidr) {
		remedies = append(remedies, "grow "+cidr)
	}
	if c.bound > 0 {
		remedies = append(remedies, "delete pods that hold one")
	}
	if !grows(v.cidr) {
		remedies = append(remedies, fmt.Sprintf("create another Network (a /%d cannot grow)", v.cidr.Bits()))
	}
	last := len(remedies) - 1
	remedy := strings.Join(remedies[:last], ", ")
	if last > 0 {
		remedy += ", or "
	}
	remedy += remedies[last]
	if len(told) == 0 {
		return "; " + remedy
	}
	return ". " + strings.Join(told, ". ") + ". " + strings.ToUpper(remedy[:1]) + remedy[1:]
}

// grows says whether the API server lets the CIDR grow. A /31 or /32 cannot: pods hold the
// addresses that would become network or broadcast address.
func grows(cidr netip.Prefix) bool { return cidr.Addr().BitLen()-cidr.Bits() > 1 }
