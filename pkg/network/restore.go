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

// A restore from a backup brings Networks, blocks and pods back, in any order, with
// other UIDs and without owner references. Its blocks name the UID of a Network that is
// gone. What becomes of an orphaned block (see orphaned); first match wins:
//
//	no Network of the name, younger than RestoreGrace   it waits for its Network
//	no Network, or one that is being deleted            its entries go with their pods
//	it has the Network's UID                            it gets its owner reference back
//	the Network never bound, and no pod of it lives     inherited: Reserved for an hour
//	a pod of it lives, the Network awaits its blocks    nothing: the view may be old
//	any other                                           its entries go with their pods
//
// A Network never bound an address if NetworkUIDAnnotation is not its own UID: the
// write of the annotation comes before the first address that was kept for nobody.

// RestoreGrace is how long a restored block waits for its Network, and how long
// entries of an inherited block are kept for owners that do not exist yet.
const RestoreGrace = time.Hour

// RestoreWait is how long a restored Network waits for its blocks. Meanwhile it serves
// only pods whose address is in a block that it has.
const RestoreWait = time.Minute

// orphaned says that a block came back from a backup: every block is created with an
// owner reference to its Network. One that is being deleted keeps no address for
// anybody, nor does one that is sealed.
func orphaned(block *v1.AddressBlock) bool {
	return block != nil && block.DeletionTimestamp == nil && !block.Spec.Sealed && metav1.GetControllerOfNoCopy(block) == nil
}

// Begun says whether the Network may have bound addresses that were kept for nobody.
func Begun(n *v1.Network) bool { return n.Annotations[v1.NetworkUIDAnnotation] == string(n.UID) }

// AwaitsBlocks is how long a Network that was restored from a backup has yet to wait
// for its blocks; zero: it does not wait.
func AwaitsBlocks(n *v1.Network, now time.Time) time.Duration {
	if uid := n.Annotations[v1.NetworkUIDAnnotation]; n.DeletionTimestamp != nil || uid == "" || uid == string(n.UID) {
		return 0
	}
	return max(0, min(n.CreationTimestamp.Add(RestoreWait).Sub(now), RestoreWait))
}

// awaits is how long an orphaned block has yet to wait for a Network, or for its pods to
// be gone; zero: it does not wait.
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

// inheritable says whether the Network inherits the block.
func (v *view) inheritable(p *page) bool {
	return v.mayInherit(p) && !slices.ContainsFunc(p.entries, func(e entry) bool { return e.State == v1.AddressBound && !v.over(&e) })
}

// mayInherit says whether the Network inherits the block unless a pod of it lives. The block
// of a Network that was removed by force is not orphaned, so its entries go with their pods.
func (v *view) mayInherit(p *page) bool {
	return v.network != nil && !terminating(v.network) && !Begun(v.network) && !p.ours && orphaned(p.block) && len(p.observed) > 0
}

// inherit makes a block that of the Network, in one write with its owner reference and
// finalizer. All of its entries become Reserved; nothing is bound by this write.
func (v *view) inherit(p *page) {
	p.own()
	for i := range p.entries {
		if p.entries[i].State == v1.AddressBound {
			p.over(i, v1.AddressReserved, v.now)
		} else {
			p.turn(i, v1.AddressReserved, v.now)
		}
	}
	p.ours, p.inherits = true, true
}

// inherited changes what an inheriting write changes besides the entries.
func (v *view) inherited(block *v1.AddressBlock) string {
	change := fmt.Sprintf("inherit from Network %s", block.Spec.NetworkUID)
	block.Spec.NetworkUID = v.network.UID
	metav1.SetMetaDataAnnotation(&block.ObjectMeta, v1.InheritedAnnotation, v.now.UTC().Format(time.RFC3339))
	return change
}

// ownerOf a block is its Network.
func (v *view) ownerOf() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1.GroupVersion.String(), Kind: "Network", Name: v.name, UID: v.network.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// unowned says that somebody took the owner reference from a block of the Network, or
// that the view of the Network is older than a restore. It takes no entry until the
// owner reference is back.
func (v *view) unowned(p *page) bool {
	return p.ours && !p.inherits && !terminating(v.network) && orphaned(p.block)
}

// grace is how long an entry of an inherited block is yet to be kept, whether or not
// its owner exists; zero: it is not.
func (v *view) grace(p *page, e *entry) time.Duration {
	if e.State != v1.AddressReserved || p.inheritedAt.IsZero() || !e.Since.Time.Equal(p.inheritedAt) {
		return 0
	}
	// A clock that was wrong when the block was inherited lengthens nothing.
	if age := v.now.Sub(p.inheritedAt); age > -RestoreGrace && age < RestoreGrace {
		return RestoreGrace - max(age, 0)
	}
	return 0
}

// hold says why the Network serves only pods whose address it keeps: a block is about
// to be inherited, or may yet come, that keeps the address of any other. In the first
// case it says nothing to pods: the next sync serves them. Of a neighbour, which pods of a
// block live is not known here, so mayInherit is enough.
func (v *view) hold(inherits func(*page) bool) *refusal {
	switch {
	case v.network == nil || Begun(v.network):
		return nil
	case slices.ContainsFunc(v.ledger.pages, inherits):
		return &refusal{}
	case AwaitsBlocks(v.network, v.now.Time) > 0:
		return &refusal{ReasonNetworkNotReady, fmt.Sprintf(
			"Network %q was restored from a backup: until %s it waits for its AddressBlocks, and serves only pods whose address is in one",
			v.name, v.network.CreationTimestamp.Add(RestoreWait).UTC().Format(time.RFC3339))}
	}
	return nil
}

// restoreEnds is when time alone ends what a restore left: a wait for blocks, here or on
// a Network that pods ask for too, or for a Network, or the hour for which entries are
// kept.
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

// begins says whether the Network is to be marked as one that hands out addresses.
func (v *view) begins() bool {
	return v.network != nil && !terminating(v.network) && !Begun(v.network) && v.held == nil && !v.refuses
}

// alive are the pods that keep the Network from inheriting blocks.
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

// wishes are the requests of a gated pod. One that a restore created brings what it
// published before: it asks for exactly these addresses, as if it named them. That it
// held them, nothing proves.
func wishes(requests []attachment.Request, brought map[string]attachment.Address) []attachment.Request {
	for i, r := range requests {
		if a, ok := brought[r.Network]; ok && !r.Address.IsValid() {
			requests[i].Address = a.Address.Addr()
		}
	}
	return requests
}
