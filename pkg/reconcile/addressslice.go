package reconcile

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network/addressslice"
)

// addressSliceKind tells agents the nodes of addresses.
type addressSliceKind struct {
	*shared
	throttle, removals, compares *throttle
	locations                    *locations
}

// locationsEvery is how long the AddressSlices of a Network stay unchanged after a write, on
// average. While many pods start, each slice is then written a few times, not fifty times. The
// first few changes are written at once: packets for a pod that moved get lost until then.
const (
	locationsEvery = time.Second
	locationsBurst = 5
)

// comparesEvery is how long a Network rests after a comparison that found only removals that
// wait. The first comparesBurst need no rest. While 10,000 pods terminate, their addresses are
// compared five times a second, not with each event.
const (
	comparesEvery = 200 * time.Millisecond
	comparesBurst = 5
)

// removalsEvery is how long addresses of terminated pods may stay in the AddressSlices of a
// Network: removalsPerSlice for each slice, at most mostRemovals. Most are removed earlier, in the
// same write that adds the address of a new pod. Each round may write all slices: 10,000 pods that
// terminate within two minutes have 200 of them. Addresses of nodes never wait longer than
// removalsEvery: other nodes accept packets from them.
const (
	removalsEvery    = 10 * time.Second
	removalsPerSlice = time.Second
	mostRemovals     = time.Minute
)

// removalsOf returns removalsEvery for the view.
func removalsOf(s addressslice.State) time.Duration {
	if s.Name == "" {
		return removalsEvery
	}
	return min(max(removalsEvery, time.Duration(len(s.Slices))*removalsPerSlice), mostRemovals)
}

func newAddressSliceKind(s *shared) *addressSliceKind {
	k := &addressSliceKind{s, newThrottle(s.clock, locationsEvery), newThrottle(s.clock, removalsEvery), newThrottle(s.clock, comparesEvery), newLocations(s.clock)}
	k.throttle.burst, k.compares.burst = locationsBurst, comparesBurst
	return k
}

// observe reads the view of one Network, or of the nodes: the pods of the Network are those
// that its AddressBlocks name. The cache of Nodes may lag behind the cache of pods. An event of
// the Node comes then.
func (r *addressSliceKind) observe(key Key) (state addressslice.State, again time.Duration, err error) {
	if left := r.throttle.left(key); left > 0 {
		return state, left, errNothing
	}
	state = addressslice.State{
		Namespace: key.Namespace, Name: key.Name, Slices: r.addressSlices.sorted(bySliced, key.path()),
		Locations: map[string]string{}, Unlocated: map[string]bool{},
	}
	state.RemovalsHeld = r.removals.gathered(key, removalsOf(state))
	if key.Name == "" {
		nodes := r.nodes.all()
		sortByName(nodes)
		for _, node := range slices.Backward(nodes) { // nodes behind one NAT may report one address: the first node has it
			for _, address := range addressslice.NodeAddresses(node) {
				state.Locations[address.String()] = addressslice.HostIP(node)
			}
		}
		return state, 0, nil
	}
	if state.Network = r.networks.get(key.Namespace, key.Name); state.Network == nil {
		r.locations.forget(key)
		return state, 0, nil
	}
	known, changed := r.locations.take(key)
	blocks := slices.DeleteFunc(r.blocks.by(byNetwork, key.path()), func(b *v1.AddressBlock) bool { return b.Spec.NetworkUID != state.Network.UID })
	known.update(blocks, changed, r.hostOf(key.Namespace))
	state.Locations, state.Unlocated = known.hosts, known.unlocated
	return state, 0, nil
}

// hostOf returns a function for networkHosts.update.
func (r *addressSliceKind) hostOf(namespace string) func(v1.AddressEntry) (string, bool) {
	hosts := map[string]string{}
	return func(entry v1.AddressEntry) (string, bool) {
		pod := r.pods.get(namespace, entry.Pod)
		if !addressslice.Runs(entry, pod) {
			return "", false
		}
		host, known := hosts[pod.Spec.NodeName]
		if !known {
			if node := r.nodes.get("", pod.Spec.NodeName); node != nil {
				host = addressslice.HostIP(node)
			}
			hosts[pod.Spec.NodeName] = host
		}
		return host, true
	}
}

// apply makes the writes of the plan.
func (r *addressSliceKind) apply(ctx context.Context, key Key, state addressslice.State, p addressslice.Plan) (result Result, err error) {
	result.RequeueAfter = p.RequeueAfter
	if !p.Empty() {
		writes := records[*v1.AddressSlice]{state.Network, p.Confirm, p.Delete, p.Update, p.Create, addressslice.ReasonFailedWrite}
		if err := writes.write(ctx, r.shared, key, r.writeAddressSlices); err != nil {
			return result, err
		}
		r.throttle.begin(key)
	}
	if !p.Gathers {
		r.removals.end(key)
		return result, nil
	}
	r.removals.gather(key, state.RemovalsHeld)
	if p.Empty() {
		r.compares.begin(key)
		result.Rest = r.compares.left(key)
	}
	return result, nil
}

// Indexes: bySliced finds the AddressSlices of a Network, byNode the pods on a node.
const (
	bySliced = "sliced"
	byNode   = "node"
)

// sliced returns the Networks that an AddressSlice is about: by its label, and by its owner, because
// a user may have changed the label. The slices of nodes have the path of the key without a name.
func sliced(slice *v1.AddressSlice) []string {
	paths := labelled(slice, v1.NetworkLabel)
	if owner := metav1.GetControllerOfNoCopy(slice); owner != nil {
		paths = append(paths, path(slice.Namespace, owner.Name))
	}
	if slice.Namespace == addressslice.NodesNamespace && (slice.Labels[v1.NodesLabel] == "true" || strings.HasPrefix(slice.Name, addressslice.NodesPrefix)) {
		paths = append(paths, path(slice.Namespace, ""))
	}
	return slices.Compact(paths)
}

func nodeOfPod(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// locatedNetworks returns the Networks that have an address of the pod.
func locatedNetworks(pod *corev1.Pod) []Key {
	var keys []Key
	for name := range attachment.Published(pod) {
		keys = append(keys, Key{KindAddressSlice, pod.Namespace, name})
	}
	return keys
}

// sameLocation recognizes updates of a pod that change no AddressSlice.
func sameLocation(old, new any) bool {
	was, ok1 := old.(*corev1.Pod)
	is, ok2 := new.(*corev1.Pod)
	return ok1 && ok2 && was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName &&
		attachment.Over(was) == attachment.Over(is) && attachment.Gated(was) == attachment.Gated(is)
}

// sameAddresses recognizes updates of a Node that change no AddressSlice.
func sameAddresses(old, new any) bool {
	was, ok1 := old.(*corev1.Node)
	is, ok2 := new.(*corev1.Node)
	return ok1 && ok2 && slices.Equal(addressslice.NodeAddresses(was), addressslice.NodeAddresses(is))
}

// sameOverlay recognizes updates of a Network that change no property in an AddressSlice.
func sameOverlay(old, new any) bool {
	was, ok1 := old.(*v1.Network)
	is, ok2 := new.(*v1.Network)
	return ok1 && ok2 && sameSpec(old, new) && was.Status.VNI == is.Status.VNI && was.Status.Gateway == is.Status.Gateway &&
		equality.Semantic.DeepEqual(was.Finalizers, is.Finalizers)
}

// wakeFrom adds the events of Networks, AddressBlocks and pods that concern
// AddressSlices.
func (r *addressSliceKind) wakeFrom(rows []row) {
	for i := range rows {
		switch rows[i].resource {
		case networksResource:
			w := itself[*v1.Network](KindAddressSlice)
			w.same = sameOverlay
			rows[i].wakes = append(rows[i].wakes, w)
		case blocksResource:
			rows[i].wakes = append(rows[i].wakes, wake{keys: waking(func(b *v1.AddressBlock) []Key { return keysOf(KindAddressSlice, networkOfBlock(b)) })})
		case podsResource:
			rows[i].wakes = append(rows[i].wakes, wake{keys: waking(r.podChanged), same: sameLocation})
		}
	}
}
