package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
)

// What live reads of pods cost. A kube-apiserver 1.36 took 0.4 ms of CPU for the get of a pod, there
// or not, and 0.02 ms for each pod of a list; pods of a usual size, and reading them here, make it ten
// listed pods for a get.
const (
	podsPerGet  = 10
	podsPerPage = 500
	// confirmListFrom is the number of pods from which a page costs no more than so many gets.
	confirmListFrom = podsPerPage / podsPerGet
)

// confirmOver checks by a live read, made after what names the pods was read, that
// they are over: that of an entry which leaves the state Bound, or whose names go.
// Those that are not were missed by our watch: they are remembered, and the decision
// is stale. So are those that are over, if others could not be read.
func (r live) confirmOver(ctx context.Context, key Key, refs []network.PodRef) error {
	var alive []string
	err := r.readPods(ctx, key.Namespace, r.confirmedOver.retain(key, refs), func(ref network.PodRef, pod *corev1.Pod) {
		if network.Over(ref, pod) {
			r.confirmedOver.confirmed(key, ref)
			return
		}
		// All of them at once: were it one a sync, the first would be forgotten
		// before the last is found.
		r.unwatched.remember(pod)
		alive = append(alive, ref.String())
	})
	if err != nil {
		return fmt.Errorf("confirm for %s that pods are over: %w", key, err)
	}
	if len(alive) > 0 {
		slices.Sort(alive)
		return fmt.Errorf("%s: not over, as the cache has it, are pods of namespace %s (was their label %s removed?): %s: %w",
			key, key.Namespace, v1.ManagedLabel, summary(alive), ErrStale)
	}
	return nil
}

// confirmAlive checks by a live read that pods are not over, before it is given up to
// inherit the blocks in which they hold addresses. Those that are, our watch is yet to
// show, and the decision is stale.
func (r live) confirmAlive(ctx context.Context, key Key, refs []network.PodRef) error {
	var over []string
	err := r.readPods(ctx, key.Namespace, refs, func(ref network.PodRef, pod *corev1.Pod) {
		if network.Over(ref, pod) {
			over = append(over, ref.String())
		}
	})
	if err != nil {
		return fmt.Errorf("confirm for %s that pods hold addresses of restored blocks: %w", key, err)
	}
	if len(over) > 0 {
		slices.Sort(over)
		return fmt.Errorf("%s: the cache is yet to show that pods are over: %s: %w", key, summary(over), ErrStale)
	}
	return nil
}

// readPods reads the named pods from the API server, quorum reads all, and has see look at
// them one by one; one that does not exist is nil. It lists the namespace, or gets each pod,
// whichever is cheaper: while 8,000 pods are deleted, a few hundred have gone each second, and to
// list the rest each time would cost the square of them. The list has no label selector: a label can
// be removed from a pod that lives.
func (r live) readPods(ctx context.Context, namespace string, refs []network.PodRef, see func(network.PodRef, *corev1.Pod)) error {
	if len(refs) < confirmListFrom {
		return r.getPods(ctx, namespace, refs, see)
	}
	live := make(map[string]*corev1.Pod, len(refs))
	page := metav1.ListOptions{Limit: podsPerPage}
	for {
		pods, err := r.pods(namespace).List(ctx, page)
		if err != nil {
			return fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
		}
		for i := range pods.Items {
			slim, _ := SlimPod(&pods.Items[i])
			live[pods.Items[i].Name] = slim.(*corev1.Pod)
		}
		left := pods.RemainingItemCount
		if page.Continue = pods.Continue; page.Continue == "" || left != nil && *left > int64(podsPerGet*len(refs)) {
			break
		}
	}
	var rest []network.PodRef // that may be on a later page
	for _, ref := range refs {
		if pod, listed := live[ref.Name]; listed || page.Continue == "" {
			see(ref, pod)
		} else {
			rest = append(rest, ref)
		}
	}
	return r.getPods(ctx, namespace, rest, see)
}

// getPods is readPods by a get for each, several at once.
func (r live) getPods(ctx context.Context, namespace string, refs []network.PodRef, see func(network.PodRef, *corev1.Pod)) error {
	var mu sync.Mutex
	_, err := forEach(ctx, refs, func(ctx context.Context, ref network.PodRef) error {
		pod, err := r.pods(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			pod, err = nil, nil
		}
		if err != nil {
			return fmt.Errorf("get pod %s/%s: %w", namespace, ref.Name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		see(ref, pod)
		return nil
	})
	return err
}

// confirmNetwork checks by a live read that the Network still stands as the view
// has it, of this generation and with the finalizer: a block made for a Network that is
// gone would hold its addresses for nobody, and an old spec hands out what has been
// excluded since.
func (r live) confirmNetwork(ctx context.Context, key Key, n *v1.Network) error {
	live, err := r.networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is gone: %w", key, ErrStale)
	}
	if err != nil {
		return fmt.Errorf("get %s before an address of it is bound: %w", key, err)
	}
	if live.UID != n.UID || !slices.Contains(live.Finalizers, v1.InUseFinalizer) ||
		(live.DeletionTimestamp != nil) != (n.DeletionTimestamp != nil) {
		return fmt.Errorf("%s was deleted or recreated meanwhile: %w", key, ErrStale)
	}
	if live.Generation != n.Generation {
		return fmt.Errorf("the spec of %s was changed meanwhile: %w", key, ErrStale)
	}
	return nil
}

// confirmRestored checks by a live read that the Network is as the view has it, or that
// there is none, before a block that was restored from a backup is written. A Network of
// the same name and another UID shows that the one which the block names is gone. One
// that inherits must not have begun to hand out addresses since.
func (r live) confirmRestored(ctx context.Context, key Key, n *v1.Network, w network.BlockWrite) error {
	live, err := r.networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("get %s before restored block %s is written: %w", key, w.Block.Name, err)
	}
	exists := err == nil
	switch {
	case exists != (n != nil),
		exists && live.UID != n.UID,
		exists && (live.DeletionTimestamp != nil) != (n.DeletionTimestamp != nil),
		exists && live.DeletionTimestamp == nil && !slices.Contains(live.Finalizers, v1.InUseFinalizer),
		w.Inherits && network.Begun(live):
		return fmt.Errorf("%s was restored, deleted or recreated meanwhile: %w", key, ErrStale)
	}
	return nil
}

// confirmPod2 checks by a live read that the Pod2 is as the view has it, before
// anything is created for it: a create has no precondition that would say so. A watch
// that lags behind would have replicas made that were scaled away, or for a Pod2 that
// is gone: collected as garbage, and made again, and so on.
func (r live) confirmPod2(ctx context.Context, key Key, p *v1.Pod2) error {
	live, err := r.pod2s(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	return confirmOwner(key, p, live, err)
}

// confirmOwner compares what a live read answered. An older spec would be wrong; and
// an older status comes with an older view of all else, in which the surge replicas
// of an update that is done are still to come.
func confirmOwner(key Key, seen, live metav1.Object, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is gone: %w", key, ErrStale)
	}
	if err != nil {
		return fmt.Errorf("get the owner of what is written for %s: %w", key, err)
	}
	if live.GetUID() != seen.GetUID() || live.GetResourceVersion() != seen.GetResourceVersion() {
		return fmt.Errorf("%s was changed, deleted or recreated meanwhile: %w", key, ErrStale)
	}
	return nil
}

// confirmSealed checks by a live list that every block of the Network is sealed,
// so that its finalizer does not go on the word of a cache of blocks that is
// behind the cache of Networks, or that misses a block whose creation was answered
// to nobody.
func (r live) confirmSealed(ctx context.Context, key Key, n *v1.Network) error {
	blocks, err := r.blocks(key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the blocks of %s before its finalizer goes: %w", key, err)
	}
	for i := range blocks.Items {
		if block := &blocks.Items[i]; block.Spec.NetworkUID == n.UID && !block.Spec.Sealed {
			return fmt.Errorf("block %s/%s of %s is not sealed: %w", key.Namespace, block.Name, key, ErrStale)
		}
	}
	return nil
}

// confirmUnseen checks by a live list that no pod that our watch does not show,
// because somebody took its label, publishes an address of a block to be created:
// such a block may have been removed by hand, and its addresses are in use. The
// list has only pods without the label, which are few where pods are on Networks.
// Whether one of those that were seen has its address is for the plan to say: an
// annotation proves nothing, and must not keep a block from being created.
func (r live) confirmUnseen(ctx context.Context, key Key, seen []*corev1.Pod, block *v1.AddressBlock) error {
	cidr, err := netip.ParsePrefix(block.Spec.CIDR)
	if err != nil {
		return fmt.Errorf("read the CIDR of block %s/%s: %w", key.Namespace, block.Name, err)
	}
	var unseen []string
	page := metav1.ListOptions{Limit: 500, LabelSelector: v1.ManagedLabel + "!=true"}
	for {
		pods, err := r.pods(key.Namespace).List(ctx, page)
		if err != nil {
			return fmt.Errorf("list the unlabelled pods of namespace %s: %w", key.Namespace, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			published, ok := attachment.Published(pod)[key.Name]
			if !ok || attachment.Gated(pod) || attachment.Over(pod) || !cidr.Contains(published.Address.Addr()) {
				continue
			}
			if !slices.ContainsFunc(seen, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
				r.unwatched.remember(pod)
				unseen = append(unseen, fmt.Sprintf("%s publishes %s", pod.Name, published.Address))
			}
		}
		if page.Continue = pods.Continue; page.Continue == "" {
			break
		}
	}
	if len(unseen) > 0 {
		return fmt.Errorf("%s: pods of namespace %s have its addresses, but not the label %s (was it removed?): %s: %w",
			key, key.Namespace, v1.ManagedLabel, summary(unseen), ErrStale)
	}
	return nil
}
