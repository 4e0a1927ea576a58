package reconcile

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// holders of the addresses that a Pod2 wants by name.
func (r *Reconciler) holders(p *v1.Pod2) ([]pod2.Holder, error) {
	holders := pod2.Holders(p, func(name string) *v1.AddressBlock {
		obj, _, _ := r.blockIndex.GetByKey(path(p.Namespace, name)) // a cache has no error
		block, _ := obj.(*v1.AddressBlock)
		return block
	})
	owners := map[v1.AddressOwner]network.Replicas{}
	for i, h := range holders {
		if err := r.addOwner(owners, p.Namespace, h.Owner); err != nil {
			return nil, err
		}
		if replicas, ok := owners[h.Owner]; ok {
			holders[i].ScaledAway = replicas.ScaledAway(h.Network, h.AddressEntry)
		}
	}
	return holders, nil
}

// waitingPod2Keys are the Pod2s of which a replica may wait for an address of the block: those
// that want addresses of its Network by name and are not complete. What one of them decided
// before its status says so, it decides anew when its status was written.
func (r *Reconciler) waitingPod2Keys(block *v1.AddressBlock) []Key {
	var keys []Key
	for _, p := range indexed[*v1.Pod2](r.pod2Index, byNetwork, path(block.Namespace, block.Spec.Network)) {
		wants := slices.ContainsFunc(p.Spec.Networks, func(n v1.Pod2Network) bool { return n.Name == block.Spec.Network && len(n.Addresses) > 0 })
		progress := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionProgressing)
		if wants && (progress == nil || progress.Reason != pod2.ReasonComplete) {
			keys = append(keys, Key{KindPod2, p.Namespace, p.Name})
		}
	}
	return keys
}
