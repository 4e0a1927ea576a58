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

// The cost of live reads of pods. A kube-apiserver 1.36 used 0.4 ms of CPU to get one
// pod, existing or not, and 0.02 ms for each pod in a list. With pods of a usual size,
// and the time to read them here, ten listed pods cost as much as one get.
const (
	podsPerGet  = 10
	podsPerPage = 500
	// confirmListFrom is the number of pods from which a page costs no more than the gets.
	confirmListFrom = podsPerPage / podsPerGet
)

// confirm checks by a live read that pods have terminated. The read must follow the read
// of the object that names them: an entry that leaves the state Bound, or DNS names to
// remove. Pods that have not terminated were missed by our watch. confirm remembers
// them as unwatched, and the decision is stale. It also remembers the terminated ones if
// others could not be read.
func (o *confirmedOver) confirm(ctx context.Context, key Key, refs []network.PodRef) error {
	var alive []string
	err := o.live.readPods(ctx, key.Namespace, o.retain(key, refs), func(ref network.PodRef, pod *corev1.Pod) {
		if network.Over(ref, pod) {
			o.confirmed(key, ref)
			return
		}
		// Remember all of them at once. With one for each sync, the first would be
		// forgotten before the last is found.
		o.unwatched.remember(pod)
		alive = append(alive, ref.String())
	})
	if err != nil {
		return fmt.Errorf("confirm for %s that pods have terminated: %w", key, err)
	}
	if len(alive) > 0 {
		slices.Sort(alive)
		return fmt.Errorf("%s: the cache says these pods in namespace %s have terminated, but the API server says they have not (was their label %s removed?): %s: %w",
			key, key.Namespace, v1.ManagedLabel, summary(alive), ErrStale)
	}
	return nil
}

// confirmAlive checks by a live read that pods have not terminated, before the Network
// gives up inheriting the AddressBlocks in which they hold addresses. If a pod has
// terminated, our watch has yet to show it, and the decision is stale.
func (r live) confirmAlive(ctx context.Context, key Key, refs []network.PodRef) error {
	var over []string
	err := r.readPods(ctx, key.Namespace, refs, func(ref network.PodRef, pod *corev1.Pod) {
		if network.Over(ref, pod) {
			over = append(over, ref.String())
		}
	})
	if err != nil {
		return fmt.Errorf("confirm for %s that pods hold addresses of restored AddressBlocks: %w", key, err)
	}
	if len(over) > 0 {
		slices.Sort(over)
		return fmt.Errorf("%s: the cache does not show yet that pods have terminated: %s: %w", key, summary(over), ErrStale)
	}
	return nil
}

// readPods reads the named pods by quorum reads and passes them to see, one by one. A pod
// that does not exist is nil. It lists the namespace or gets each pod, whichever is
// cheaper. While 8,000 pods are deleted, a few hundred disappear each second. To list the
// rest each time would cost the square of their number. The list has no label selector,
// because a user can remove a label from a live pod.
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
	var rest []network.PodRef // pods that may be on a later page
	for _, ref := range refs {
		if pod, listed := live[ref.Name]; listed || page.Continue == "" {
			see(ref, pod)
		} else {
			rest = append(rest, ref)
		}
	}
	return r.getPods(ctx, namespace, rest, see)
}

// getPods is readPods by concurrent gets.
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

// confirmNetwork checks by a live read that the Network exists as in the view, with its
// generation and the finalizer. An AddressBlock for a Network that is gone would hold
// addresses for no pod, and an old spec would hand out addresses that were excluded
// since.
func (r live) confirmNetwork(ctx context.Context, key Key, n *v1.Network) error {
	live, err := r.networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is gone: %w", key, ErrStale)
	}
	if err != nil {
		return fmt.Errorf("get %s before a write that needs it: %w", key, err)
	}
	if live.UID != n.UID || !slices.Contains(live.Finalizers, v1.InUseFinalizer) ||
		(live.DeletionTimestamp != nil) != (n.DeletionTimestamp != nil) {
		return fmt.Errorf("%s was deleted or recreated in the meantime: %w", key, ErrStale)
	}
	if live.Generation != n.Generation {
		return fmt.Errorf("the spec of %s was changed in the meantime: %w", key, ErrStale)
	}
	return nil
}

// confirmSame checks by a live read that the Network is the one in the view, before a pod
// is published that another Network with this name bound too. The answer proves that the
// other one is older: there is only one Network with a name at a time.
func (r live) confirmSame(ctx context.Context, key Key, n *v1.Network) error {
	live, err := r.networks(n.Namespace).Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("get Network %s/%s before publishing %s: %w", n.Namespace, n.Name, key, err)
	}
	if err != nil || live.UID != n.UID {
		return fmt.Errorf("%s: Network %s/%s was deleted or recreated in the meantime: %w", key, n.Namespace, n.Name, ErrStale)
	}
	return nil
}

// confirmRestored checks by a live read that the Network is as in the view, or does not
// exist, before an AddressBlock from a backup is written. A Network with the same name
// and another UID proves that the Network named in the AddressBlock is gone. A Network
// that inherits must not have begun to hand out addresses.
func (r live) confirmRestored(ctx context.Context, key Key, n *v1.Network, w network.BlockWrite) error {
	live, err := r.networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("get %s before writing restored AddressBlock %s: %w", key, w.Block.Name, err)
	}
	exists := err == nil
	switch {
	case exists != (n != nil),
		exists && live.UID != n.UID,
		exists && (live.DeletionTimestamp != nil) != (n.DeletionTimestamp != nil),
		exists && live.DeletionTimestamp == nil && !slices.Contains(live.Finalizers, v1.InUseFinalizer),
		w.Inherits && network.Begun(live):
		return fmt.Errorf("%s was restored, deleted or recreated in the meantime: %w", key, ErrStale)
	}
	return nil
}

// confirmPod2 checks by a live read that the Pod2 is as in the view, before anything is
// created for it, because a create has no such precondition. A lagging watch would
// otherwise create replicas that were scaled down, or replicas of a deleted Pod2. The
// garbage collector would delete those, the controller would create them again, and so
// on.
func (r live) confirmPod2(ctx context.Context, key Key, p *v1.Pod2) error {
	live, err := r.pod2s(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	return confirmOwner(key, p, live, err)
}

// confirmOwner compares the view with the answer of a live read. An older spec would be
// wrong. An older status comes with an older view of everything else, in which an update
// that has finished still needs its surge replicas.
func confirmOwner(key Key, seen, live metav1.Object, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is gone: %w", key, ErrStale)
	}
	if err != nil {
		return fmt.Errorf("get the owner of the objects to create for %s: %w", key, err)
	}
	if live.GetUID() != seen.GetUID() || live.GetResourceVersion() != seen.GetResourceVersion() {
		return fmt.Errorf("%s was changed, deleted or recreated in the meantime: %w", key, ErrStale)
	}
	return nil
}

// confirmSealed checks by a live LIST that every AddressBlock of the Network is sealed. A
// cache alone cannot justify removing the finalizer. The cache of AddressBlocks may be
// behind the cache of Networks, or may lack an AddressBlock whose creation got no
// response.
func (r live) confirmSealed(ctx context.Context, key Key, n *v1.Network) error {
	blocks, err := r.blocks(key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the AddressBlocks of %s before removing its finalizer: %w", key, err)
	}
	for i := range blocks.Items {
		if block := &blocks.Items[i]; block.Spec.NetworkUID == n.UID && !block.Spec.Sealed {
			return fmt.Errorf("AddressBlock %s/%s of %s is not sealed: %w", key.Namespace, block.Name, key, ErrStale)
		}
	}
	return nil
}

// confirmUnseen checks by a live LIST that no pod outside our watch publishes an address
// of an AddressBlock that is about to be created. A user may have deleted that
// AddressBlock and removed the label of a pod, and then its addresses are in use. The
// LIST returns only pods without the label, which are few where pods are on Networks. The
// plan decides whether a pod in the view has its address. An annotation proves nothing
// and must not prevent the creation of an AddressBlock.
func (r live) confirmUnseen(ctx context.Context, key Key, seen []*corev1.Pod, block *v1.AddressBlock, unwatched *unwatched[*corev1.Pod]) error {
	cidr, err := netip.ParsePrefix(block.Spec.CIDR)
	if err != nil {
		return fmt.Errorf("read the CIDR of AddressBlock %s/%s: %w", key.Namespace, block.Name, err)
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
				unwatched.remember(pod)
				unseen = append(unseen, fmt.Sprintf("%s publishes %s", pod.Name, published.Address))
			}
		}
		if page.Continue = pods.Continue; page.Continue == "" {
			break
		}
	}
	if len(unseen) > 0 {
		return fmt.Errorf("%s: pods in namespace %s have its addresses but not the label %s (was it removed?): %s: %w",
			key, key.Namespace, v1.ManagedLabel, summary(unseen), ErrStale)
	}
	return nil
}
