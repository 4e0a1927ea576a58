package network

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// A restore from a backup recreates Networks, AddressBlocks and pods, in any order, with
// new UIDs and without owner references. The AddressBlocks name the UID of a Network that is
// gone. These rules apply to an orphaned AddressBlock (see orphaned). First match wins:
//
//	no Network, block younger than RestoreGrace           it waits for its Network
//	no Network, or Network is being deleted               its entries end with their pods
//	it has the Network's UID                              it gets its owner reference back
//	the Network never bound, none of its pods lives       inherited: Reserved for an hour
//	a pod of it lives, the Network waits for its blocks   nothing: the view may be old
//	any other                                             its entries end with their pods
//
// A Network has never bound an address if NetworkUIDAnnotation is not its own UID. The
// annotation is written before the first bind of an address that was kept for no pod.

// RestoreGrace is how long a restored AddressBlock waits for its Network. It is also how
// long entries of an inherited AddressBlock are kept for owners that do not exist yet.
const RestoreGrace = time.Hour

// RestoreWait is how long a restored Network waits for its AddressBlocks. During this
// time it serves only pods whose address is in an AddressBlock that already exists.
const RestoreWait = time.Minute

// orphaned says that an AddressBlock came back from a backup: the controller creates
// every AddressBlock with an owner reference to its Network. A sealed AddressBlock, or
// one that is being deleted, keeps no address for any pod, so it does not count.
func orphaned(block *v1.AddressBlock) bool {
	return block != nil && block.DeletionTimestamp == nil && !block.Spec.Sealed && metav1.GetControllerOfNoCopy(block) == nil
}

// Begun says whether the Network may have bound addresses that were kept for no pod.
func Begun(n *v1.Network) bool { return n.Annotations[v1.NetworkUIDAnnotation] == string(n.UID) }

// AwaitsBlocks is how much longer a restored Network waits for its AddressBlocks; zero:
// it does not wait.
func AwaitsBlocks(n *v1.Network, now time.Time) time.Duration {
	if uid := n.Annotations[v1.NetworkUIDAnnotation]; n.DeletionTimestamp != nil || uid == "" || uid == string(n.UID) {
		return 0
	}
	return max(0, min(n.CreationTimestamp.Add(RestoreWait).Sub(now), RestoreWait))
}

// awaits is how much longer an orphaned AddressBlock waits for a Network, or for its pods to
// terminate; zero: it does not wait.
func (v *view) awaits(p *page) time.Duration {
	switch {
	case !orphaned(p.block) || len(p.observed) == 0:
		return 0
	case v.network != nil && (p.ours || Begun(v.network) || v.inheritable(p)):
		return 0
	case v.network != nil:
		return AwaitsBlocks(v.network, v.now.Time)
	}
	return max(0, min(p.block.CreationTimestamp.Add(RestoreGrace).Sub(v.now.Time), RestoreGrace))
}

// inheritable says whether the Network inherits the AddressBlock.
func (v *view) inheritable(p *page) bool {
	return v.mayInherit(p) && !slices.ContainsFunc(p.entries, func(e entry) bool { return e.State == v1.AddressBound && !v.over(&e) })
}

// mayInherit says whether the Network inherits the AddressBlock unless one of its pods
// lives. The AddressBlock of a Network that was removed by force is not orphaned, so its
// entries end with their pods.
func (v *view) mayInherit(p *page) bool {
	return v.network != nil && !terminating(v.network) && !Begun(v.network) && !p.ours && orphaned(p.block) && len(p.observed) > 0
}

// inherit gives an AddressBlock to the Network, in one write with its owner reference and
// finalizer. Its entries become Reserved, except for addresses that a pod had left for another
// one. This write binds nothing.
func (v *view) inherit(p *page) {
	p.own()
	for i := range p.entries {
		switch e := &p.entries[i]; {
		case e.State == v1.AddressBound:
			p.over(i, v1.AddressReserved, v.now)
		case e.State == v1.AddressReserved || !v.left(e):
			p.turn(i, v1.AddressReserved, v.now)
		}
	}
	p.ours, p.inherits = true, true
}

// left says whether the pod of a Resting entry had another address later.
func (v *view) left(e *entry) bool {
	return slices.ContainsFunc(v.ledger.pages, func(p *page) bool {
		return slices.ContainsFunc(p.Of(e.Pod), func(i uint16) bool {
			other := p.observed[i]
			return other.State != v1.AddressResting && other.Owner == e.Owner
		})
	})
}

// inherited makes the changes of an inheriting write, except for the entries.
func (v *view) inherited(block *v1.AddressBlock) string {
	change := fmt.Sprintf("inherit from Network %s", block.Spec.NetworkUID)
	block.Spec.NetworkUID = v.network.UID
	metav1.SetMetaDataAnnotation(&block.ObjectMeta, v1.InheritedAnnotation, v.now.UTC().Format(time.RFC3339))
	return change
}

// ownerOf returns the owner reference of an AddressBlock: its Network.
func (v *view) ownerOf() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1.GroupVersion.String(), Kind: "Network", Name: v.name, UID: v.network.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// unowned says that another client removed the owner reference from an AddressBlock of
// the Network, or that the view of the Network is older than a restore. The AddressBlock
// takes no entry until the owner reference is back.
func (v *view) unowned(p *page) bool {
	return p.ours && !p.inherits && !terminating(v.network) && orphaned(p.block)
}

// grace is how much longer an entry of an inherited AddressBlock is kept, whether or not
// its owner exists; zero: it is not kept. Only an entry whose time is that of the inheritance is
// kept: the others changed later.
func (v *view) grace(p *page, e *entry) time.Duration {
	if e.State != v1.AddressReserved || p.inheritedAt.IsZero() || !e.Since.Time.Equal(p.inheritedAt) {
		return 0
	}
	// A wrong clock at the time of the inheritance must not extend the grace.
	if age := v.now.Sub(p.inheritedAt); age > -RestoreGrace && age < RestoreGrace {
		return RestoreGrace - max(age, 0)
	}
	return 0
}

// hold says why the Network serves only pods whose address it keeps. It is about to
// inherit an AddressBlock that keeps the address of another pod, or such an AddressBlock may
// still come. In the first case it reports nothing to pods: the next sync serves them. The pods of a neighbour's
// AddressBlock are not known here, so mayInherit is enough for a neighbour.
func (v *view) hold(inherits func(*page) bool) *refusal {
	switch {
	case v.network == nil || Begun(v.network):
		return nil
	case slices.ContainsFunc(v.ledger.pages, inherits):
		return &refusal{}
	case AwaitsBlocks(v.network, v.now.Time) > 0:
		return &refusal{ReasonNetworkNotReady, fmt.Sprintf(
			"Network %q was restored from a backup: until %s it waits for its AddressBlocks and serves only pods whose address is in one",
			v.name, v.network.CreationTimestamp.Add(RestoreWait).UTC().Format(time.RFC3339))}
	}
	return nil
}

// restoreEnds is the time until the passing of time alone ends an effect of a restore.
// Such an effect is the wait of this Network or a neighbour for AddressBlocks, the wait
// of an AddressBlock for its Network, or the hour for which entries are kept.
func (v *view) restoreEnds(neighbours map[string]*view) time.Duration {
	next := never
	soon := func(left time.Duration) {
		if left > 0 {
			next = min(next, left)
		}
	}
	for _, at := range append(slices.Collect(maps.Values(neighbours)), v) {
		if at.network != nil {
			soon(AwaitsBlocks(at.network, v.now.Time))
		}
	}
	for _, p := range v.ledger.pages {
		if p.quiet {
			continue
		}
		soon(v.awaits(p))
		for i := range p.entries {
			if e := &p.entries[i]; !v.keeps(e.Owner) {
				soon(v.grace(p, e))
			}
		}
	}
	return next
}

// begins says whether to mark the Network as one that hands out addresses.
func (v *view) begins() bool {
	return v.network != nil && !terminating(v.network) && !Begun(v.network) && v.held == nil && !v.refuses
}

// alive returns the pods that keep the Network from inheriting AddressBlocks.
func (v *view) alive() []PodRef {
	var refs []PodRef
	for _, p := range v.ledger.pages {
		if p.ours || !orphaned(p.block) {
			continue
		}
		for _, e := range p.observed {
			if e.State == v1.AddressBound {
				if i, ok := index(p.entries, e.addr); ok && p.entries[i].PodUID == e.PodUID {
					refs = append(refs, PodRef{e.Pod, e.PodUID})
				}
			}
		}
	}
	return sortedRefs(refs)
}

// wishes returns the requests of a gated pod. A restored pod still carries the addresses
// that it published before. It asks for exactly these, as if it named them. Nothing
// proves that it held them.
func wishes(requests []attachment.Request, brought map[string]attachment.Address) []attachment.Request {
	for i, r := range requests {
		if a, ok := brought[r.Network]; ok && !r.Address.IsValid() {
			requests[i].Address = a.Address.Addr()
		}
	}
	return requests
}
