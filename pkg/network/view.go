package network

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

// view is a State with indexes and the working copy of the AddressBlocks.
type view struct {
	name    string
	network *v1.Network
	// attachment is to be reported in the status; nil: the status keeps its values.
	attachment *Attachment
	cidr       netip.Prefix
	// cidrs are the recorded CIDRs and those to record; the last one is cidr.
	cidrs   []netip.Prefix
	pool    ipam.Pool
	poolErr error
	ledger  *ledger
	pods    map[string]*corev1.Pod
	// published addresses of this Network, by pod name. A gated pod has none: another client
	// wrote its annotation.
	published map[string]netip.Addr
	owners    map[v1.AddressOwner]Replicas
	now       metav1.Time
	delay     time.Duration
	// reclaimable addresses, longest unused first; nil until needed.
	reclaimable []netip.Addr
	// counted and opening are nil until needed.
	counted *tally
	opening *bool
	// awaited addresses go to a replica that asks for them, once they have rested.
	awaited map[netip.Addr]bool
	// short: a pod got no address, and the passing of time may free one for it.
	short bool
	// overlap is a range of the cluster that overlaps the Network; nil: none.
	overlap *ClusterRange
	// refuses: the Network serves no pod because of the overlap.
	refuses bool
	// barred are the ranges of the cluster from which the Network hands out no address.
	barred []ipam.Range
	// held is the refusal for pods whose address the Network does not keep, while
	// AddressBlocks of a backup may come; nil: it serves all pods.
	held *refusal
	// toRelease are the entries whose reservations a user asks to end, by address; nil until
	// needed.
	toRelease map[string]v1.AddressEntry
}

func newView(s State) (*view, map[string]*view) {
	pods := make(map[string]*corev1.Pod, len(s.Pods))
	for _, pod := range s.Pods {
		pods[pod.Name] = pod
	}
	build := func(name string, network *v1.Network, blocks []*v1.AddressBlock) *view {
		v := &view{
			name: name, network: network, ledger: newLedger(network, blocks, s.Known, pods), pods: pods, owners: s.Owners, awaited: map[netip.Addr]bool{},
			// The API stores whole seconds.
			now: metav1.NewTime(s.Now.Truncate(time.Second)),
		}
		if network != nil {
			v.pool, v.poolErr = Pool(network)
			v.cidr, _ = ipam.CheckCIDR(network.Spec.CIDR)
			v.delay = ReuseDelay(network)
			v.avoid(s)
		}
		return v
	}
	neighbours := map[string]*view{}
	for _, n := range s.Neighbours {
		neighbours[n.Name] = build(n.Name, n.Network, n.Blocks)
	}
	v := build(s.Name, s.Network, s.Blocks)
	for _, p := range v.ledger.pages {
		if !p.quiet {
			p.own()
		}
	}
	v.held = v.hold(v.inheritable)
	for _, at := range neighbours {
		at.held = at.hold(at.mayInherit)
	}
	v.published = make(map[string]netip.Addr, len(s.Pods))
	for _, pod := range s.Pods {
		if a, ok := attachment.Published(pod)[s.Name]; ok && !attachment.Gated(pod) {
			v.published[pod.Name] = a.Address.Addr()
		}
	}
	v.attachment = s.Attachment
	if v.network != nil {
		if v.cidrs = v.toRecord(); !slices.Equal(v.cidrs, recorded(v.network)) {
			v.pool, v.poolErr = poolWith(v.network, v.cidrs, v.barred...)
		}
	}
	return v, neighbours
}

// ReuseDelay is how long a freed address of the Network rests.
func ReuseDelay(n *v1.Network) time.Duration {
	if n.Spec.ReuseDelaySeconds == nil {
		return time.Minute
	}
	return time.Duration(*n.Spec.ReuseDelaySeconds) * time.Second
}

// The method says whether the page belongs to a Network that is terminating or gone. A
// Network recreated under the same name is another one.
func (v *view) goes(p *page) bool {
	return v.network == nil || terminating(v.network) || !p.ours
}

// reclaim returns the address that has been reserved longest for a scaled-down replica. Such
// addresses are reassigned last, and only after they have rested.
func (v *view) reclaim() (netip.Addr, bool) {
	if v.reclaimable == nil {
		v.reclaimable = v.findReclaimable()
	}
	for len(v.reclaimable) > 0 {
		addr := v.reclaimable[0]
		if e := v.ledger.find(addr); e != nil && v.mayReclaim(e) {
			return addr, true
		}
		v.reclaimable = v.reclaimable[1:]
	}
	return netip.Addr{}, false
}

func (v *view) findReclaimable() []netip.Addr {
	type candidate struct {
		addr  netip.Addr
		since time.Time
	}
	candidates := []candidate{}
	for _, p := range v.ledger.pages {
		if p.quiet {
			continue
		}
		for i := range p.entries {
			if p.open && v.pool.Has(p.entries[i].addr) && v.mayReclaim(&p.entries[i]) {
				candidates = append(candidates, candidate{p.entries[i].addr, p.entries[i].Since.Time})
			}
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.since.Compare(b.since) })
	addrs := make([]netip.Addr, 0, len(candidates))
	for _, c := range candidates {
		addrs = append(addrs, c.addr)
	}
	return addrs
}

func (v *view) mayReclaim(e *entry) bool {
	return v.scaledAway(e) && v.rested(e) && !v.ledger.promised[e.addr]
}

// scaledAway says whether other pods may have the address of the entry once it has rested.
func (v *view) scaledAway(e *entry) bool {
	replicas, ok := v.owners[e.Owner]
	return ok && replicas.ScaledAway(v.name, *e.AddressEntry) && v.pool.Refusal(e.addr) == ""
}

// ahead says whether an entry that no pod holds begins in the future, by this clock. Without
// a correction it would rest until then and longer.
func (v *view) ahead(e *entry) bool { return e.State != v1.AddressBound && e.Since.After(v.now.Time) }

func (v *view) rested(e *entry) bool { return !v.now.Time.Before(e.Since.Add(v.delay)) }
