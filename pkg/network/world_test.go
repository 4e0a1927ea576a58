package network

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// cluster holds the objects of an API server, or of a cache. Objects are replaced, never
// changed, so a copy of the maps is a snapshot.
type cluster struct {
	networks map[string]*v1.Network
	blocks   map[string]*v1.AddressBlock
	pods     map[string]*corev1.Pod
	owners   map[v1.AddressOwner]Replicas
}

func newCluster() cluster {
	return cluster{map[string]*v1.Network{}, map[string]*v1.AddressBlock{}, map[string]*corev1.Pod{}, map[v1.AddressOwner]Replicas{}}
}

func sorted[T any](m map[string]T) []T {
	all := make([]T, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[name])
	}
	return all
}

func (c cluster) blocksOf(network string) []*v1.AddressBlock {
	return slices.DeleteFunc(sorted(c.blocks), func(b *v1.AddressBlock) bool { return b.Spec.Network != network })
}

// state returns the State that observe would find.
func (c cluster) state(name string, at time.Time) State {
	s := State{Now: at, Namespace: "default", Name: name, Network: c.networks[name], Blocks: c.blocksOf(name), Owners: maps.Clone(c.owners)}
	named := map[string]bool{}
	for _, b := range s.Blocks {
		for _, e := range b.Spec.Entries {
			named[e.Pod] = true
		}
	}
	neighbours := map[string]bool{}
	for _, pod := range sorted(c.pods) {
		requests, _ := attachment.Requests(pod)
		asks := slices.ContainsFunc(requests, func(r attachment.Request) bool { return r.Network == name })
		_, publishes := attachment.Published(pod)[name]
		if asks || publishes || named[pod.Name] {
			s.Pods = append(s.Pods, pod)
		}
		for _, r := range requests {
			if _, waits := Wants(pod); waits && asks && r.Network != name {
				neighbours[r.Network] = true
			}
		}
	}
	for _, other := range slices.Sorted(maps.Keys(neighbours)) {
		s.Neighbours = append(s.Neighbours, Neighbour{other, c.networks[other], c.blocksOf(other)})
	}
	return s
}

func (c cluster) podState(name string, at time.Time) PodState {
	s := PodState{Now: at, Pod: c.pods[name]}
	requests, _ := attachment.Requests(s.Pod)
	for _, r := range requests {
		s.Networks = append(s.Networks, Neighbour{r.Network, c.networks[r.Network], c.blocksOf(r.Network)})
	}
	return s
}

// server is a cluster with the rules of the API server, the schemas and apply.
type server struct {
	cluster
	now  time.Time
	last int // resourceVersions and UIDs
	// published counts the pods that were served.
	published int
}

var errRefused = errors.New("refused")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errRefused}, args...)...)
}

func (w *server) stamp(o metav1.Object) {
	w.last++
	o.SetResourceVersion(strconv.Itoa(w.last))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("u%d", w.last)))
		o.SetCreationTimestamp(metav1.NewTime(w.now))
	}
}

func (w *server) putNetwork(n *v1.Network) {
	w.stamp(n)
	w.networks[n.Name] = n
	if n.DeletionTimestamp != nil && len(n.Finalizers) == 0 {
		delete(w.networks, n.Name)
	}
}

func (w *server) putBlock(b *v1.AddressBlock) {
	w.stamp(b)
	w.blocks[b.Name] = b
	if b.DeletionTimestamp != nil && len(b.Finalizers) == 0 {
		delete(w.blocks, b.Name)
	}
}

func (w *server) putPod(p *corev1.Pod) {
	w.stamp(p)
	w.pods[p.Name] = p
}

func (w *server) deleteBlock(b *v1.AddressBlock) {
	b = b.DeepCopy()
	b.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	w.putBlock(b)
}

// apply writes a plan made from s as package reconcile does. After the given number of calls
// the controller dies.
func (w *server) apply(s State, p Plan, calls int) error {
	n := s.Network
	current := func() error {
		if found := w.networks[s.Name]; found == nil || found.ResourceVersion != n.ResourceVersion {
			return refuse("conflict on Network %s", s.Name)
		}
		n = n.DeepCopy()
		return nil
	}
	call := func(do func() error) error {
		if calls--; calls < 0 {
			return refuse("the controller died")
		}
		return do()
	}
	var all []func() error
	if p.AddFinalizer || p.Begin {
		all = append(all, func() error {
			if err := current(); err != nil {
				return err
			}
			if p.AddFinalizer {
				n.Finalizers = append(n.Finalizers, v1.InUseFinalizer)
			}
			for _, ref := range p.Alive {
				if Over(ref, w.pods[ref.Name]) {
					return refuse("%s has terminated", ref)
				}
			}
			if p.Begin {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1.NetworkUIDAnnotation, string(n.UID))
			}
			w.putNetwork(n)
			return nil
		})
	}
	for _, write := range p.Blocks {
		all = append(all, func() error { return w.writeBlock(n, write) })
	}
	if p.RemoveFinalizer {
		all = append(all, func() error {
			if err := current(); err != nil {
				return err
			}
			for _, b := range w.blocksOf(s.Name) {
				if b.Spec.NetworkUID == n.UID && !b.Spec.Sealed {
					return refuse("block %s is not sealed", b.Name)
				}
			}
			n.Finalizers = slices.DeleteFunc(n.Finalizers, func(f string) bool { return f == v1.InUseFinalizer })
			w.putNetwork(n)
			return refuse("the rest is not written: the Network may be gone")
		})
	}
	for _, wait := range p.Waits {
		all = append(all, func() error { return w.condition(wait.Pod, wait.Condition) })
	}
	if p.Status != nil {
		all = append(all, func() error {
			if err := current(); err != nil {
				return err
			}
			n.Status = *p.Status.DeepCopy()
			w.putNetwork(n)
			return nil
		})
	}
	for _, do := range all {
		if err := call(do); err != nil {
			return err
		}
	}
	return nil
}

func (w *server) writeBlock(n *v1.Network, write BlockWrite) error {
	for _, ref := range write.ConfirmOver {
		if !Over(ref, w.pods[ref.Name]) {
			return refuse("%s has not terminated", ref)
		}
	}
	old, next := w.blocks[write.Block.Name], write.Block.DeepCopy()
	if write.Restored {
		live := w.networks[write.Block.Spec.Network]
		if (live == nil) != (n == nil) || live != nil && (live.UID != n.UID || terminating(live) != terminating(n) ||
			len(next.Spec.Entries) > 0 && !terminating(n) && !hasFinalizer(live) || write.Inherits && Begun(live)) {
			return refuse("Network %s differs from the view", write.Block.Spec.Network)
		}
	}
	switch {
	case write.Verb == Create && old != nil:
		return refuse("%s exists", next.Name)
	case write.Verb == Create:
		live := w.networks[n.Name]
		if live == nil || live.UID != n.UID || !hasFinalizer(live) || terminating(live) != terminating(n) {
			return refuse("Network %s differs from the view", n.Name)
		}
	case old == nil || old.UID != next.UID || old.ResourceVersion != next.ResourceVersion:
		return refuse("conflict on block %s", next.Name)
	case write.Verb == Delete:
		w.deleteBlock(old)
		return nil
	case next.Spec.NetworkUID != old.Spec.NetworkUID && (old.Spec.Sealed || slices.ContainsFunc(next.Spec.Entries, func(e v1.AddressEntry) bool { return e.State == v1.AddressBound })):
		return fmt.Errorf("block %s: inherited with Bound entries, or sealed", next.Name)
	case next.Spec.CIDR != old.Spec.CIDR || old.Spec.Sealed && !next.Spec.Sealed:
		return fmt.Errorf("block %s: an immutable field changed", next.Name)
	case old.DeletionTimestamp != nil && len(next.Finalizers) > len(old.Finalizers):
		return fmt.Errorf("block %s: no finalizer is added once it is being deleted", next.Name)
	}
	if next.Spec.Sealed && len(next.Spec.Entries) > 0 || len(next.Spec.Entries) > 256 {
		return fmt.Errorf("block %s: sealed with entries, or more than 256", next.Name)
	}
	w.putBlock(next)
	return nil
}

func (w *server) condition(ref PodRef, c corev1.PodCondition) error {
	pod := w.pods[ref.Name]
	if pod == nil || pod.UID != ref.UID {
		return refuse("condition of %s: not found", ref)
	}
	pod = pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{c} // this world has no other condition
	w.putPod(pod)
	return nil
}

func (w *server) applyPod(seen *corev1.Pod, p PodPlan) error {
	if p.Publish != nil {
		pod := w.pods[seen.Name]
		if pod == nil || pod.UID != seen.UID || pod.ResourceVersion != seen.ResourceVersion {
			return refuse("publish into %s: conflict", seen.Name)
		}
		for _, n := range p.Publish.Confirm {
			if live := w.networks[n.Name]; live == nil || live.UID != n.UID {
				return refuse("publish into %s: Network %s is another one", seen.Name, n.Name)
			}
		}
		pod = pod.DeepCopy()
		pod.Annotations[v1.AddressesAnnotation], pod.Annotations[v1.MultusAnnotation] = p.Publish.Addresses, p.Publish.Multus.Networks
		pod.Spec.SchedulingGates = nil
		w.published++
		w.putPod(pod)
	}
	if p.Condition != nil {
		return w.condition(PodRef{seen.Name, seen.UID}, *p.Condition)
	}
	return nil
}

func (w *server) String() string {
	var b strings.Builder
	for _, n := range sorted(w.networks) {
		fmt.Fprintf(&b, "network %s %s uid=%s finalizers=%v terminating=%t\n", n.Name, n.Spec.CIDR, n.UID, n.Finalizers, terminating(n))
	}
	for _, block := range sorted(w.blocks) {
		fmt.Fprintf(&b, "block %s uid=%s sealed=%t finalizers=%v terminating=%t\n", block.Name, block.Spec.NetworkUID, block.Spec.Sealed, block.Finalizers, block.DeletionTimestamp != nil)
		for _, e := range block.Spec.Entries {
			fmt.Fprintf(&b, "  %s %s %s/%s %s %s\n", e.Address, e.State, e.Pod, e.PodUID, e.Owner, e.Since.Sub(w.now))
		}
	}
	for _, p := range sorted(w.pods) {
		fmt.Fprintf(&b, "pod %s/%s gated=%t %s terminating=%t %v\n", p.Name, p.UID, attachment.Gated(p), p.Status.Phase, p.DeletionTimestamp != nil, p.Annotations)
	}
	fmt.Fprintf(&b, "owners %v\n", w.owners)
	return b.String()
}
