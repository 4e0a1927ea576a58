package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/pod2"
)

// holding identifies an address of a Network.
type holding struct {
	network string
	address netip.Addr
}

// takes counts the addresses that the Pod2s of the files take, by namespace and Network.
type takes map[[2]string]int64

// addressText lists the addresses that the replicas would ask for and do not have yet,
// and the obstacles. It is empty if they ask for none. taken is about earlier Pod2s of the
// same files, and it adds this one.
func addressText(s pod2.State, blocks []*v1.AddressBlock, taken takes) string {
	entries := map[holding]v1.AddressEntry{}
	own := map[holding]bool{}     // an address of this Pod2
	has := map[[2]string]bool{}   // a pod of the Pod2 has one on the Network
	would := map[[2]string]bool{} // a pod would have one, once it is adopted from the StatefulSet with this name
	for _, block := range blocks {
		for _, e := range block.Spec.Entries {
			address, err := netip.ParseAddr(e.Address)
			if err != nil || block.Spec.Network == "" {
				continue
			}
			at := holding{block.Spec.Network, address}
			entries[at] = e
			if e.Owner == (v1.AddressOwner{Kind: "Pod2", Name: s.Pod2.Name}) {
				own[at], has[[2]string{at.network, e.Pod}] = true, true
			}
			if e.Owner == (v1.AddressOwner{Kind: "StatefulSet", Name: s.Pod2.Name}) {
				would[[2]string{at.network, e.Pod}] = true
			}
		}
	}
	networks := map[string]*v1.Network{}
	for _, n := range s.Networks {
		networks[n.Name] = n
	}

	var lines []string
	kept, adopted, free, fixed := 0, 0, map[string]int64{}, map[string]int64{}
	requested, replicas := pod2.Requested(s.Pod2), pod2.Ordinals(s.Pod2)
	for place := range replicas.Count() {
		pod := ordinals.Name(s.Pod2.Name, replicas.At(place))
		requests, _ := attachment.ParseRequests(requested(replicas.At(place)))
		for _, r := range requests {
			at := holding{r.Network, r.Address}
			e, held := entries[at]
			switch {
			case r.Address.IsValid() && own[at] && e.Pod == pod, !r.Address.IsValid() && has[[2]string{r.Network, pod}]:
				kept++
			case would[[2]string{r.Network, pod}] && (!r.Address.IsValid() || e.Pod == pod):
				adopted++
			case !r.Address.IsValid():
				free[r.Network]++
			case held:
				lines = append(lines, fmt.Sprintf("%s asks for %s on %s, which %s has (%s, owner %s)", pod, r.Address, r.Network, e.Pod, e.State, ownerText(e.Owner)))
			default:
				why, forAny := refusal(networks[r.Network], r.Address)
				if forAny {
					fixed[r.Network]++
				}
				lines = append(lines, fmt.Sprintf("%s asks for %s on %s%s", pod, r.Address, r.Network, why))
			}
		}
	}
	if kept > 0 {
		lines = append(lines, counted(kept, "address is", "addresses are")+" kept")
	}
	if adopted > 0 {
		lines = append(lines, fmt.Sprintf("%s kept if the pods of StatefulSet %s are adopted", counted(adopted, "address is", "addresses are"), s.Pod2.Name))
	}
	for _, name := range slices.Sorted(maps.Keys(free)) {
		line := fmt.Sprintf("%s any free address on %s", counted(free[name], "replica gets", "replicas get"), name)
		if networks[name] == nil {
			line += ", which does not exist"
		} else if left, ok := available(networks[name], entries); ok {
			if left = max(left-taken[[2]string{s.Pod2.Namespace, name}]-fixed[name], 0); left < free[name] {
				line += fmt.Sprintf(", which has %d available", left)
			}
		}
		lines = append(lines, line)
	}
	for _, counts := range []map[string]int64{free, fixed} {
		for name, n := range counts {
			taken[[2]string{s.Pod2.Namespace, name}] += n
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "Addresses of the replicas:\n  " + strings.Join(lines, "\n  ") + "\n"
}

// available returns how many addresses pods can get without asking for one. If the
// controller has not observed the spec of the Network, the pool is computed here. It
// returns false if the spec is wrong.
func available(n *v1.Network, entries map[holding]v1.AddressEntry) (int64, bool) {
	if n.Status.ObservedGeneration > 0 && n.Status.ObservedGeneration == n.Generation {
		return n.Status.Available, true
	}
	pool, err := network.Pool(n)
	if err != nil {
		return 0, false
	}
	left := pool.ForAny()
	for at := range entries {
		if at.network == n.Name && pool.Has(at.address) {
			left--
		}
	}
	return left, true
}

// refusal is the reason why the Network would not hand out the address. forAny says that
// the address counts as available.
func refusal(n *v1.Network, address netip.Addr) (why string, forAny bool) {
	if n == nil {
		return ", which does not exist", false
	}
	pool, err := network.Pool(n)
	if err != nil {
		return ", whose " + err.Error(), false
	}
	if why := pool.Refusal(address); why != "" {
		return ", but it " + why, false
	}
	return "", pool.Has(address)
}
