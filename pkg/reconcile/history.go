package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network/history"
	"github.com/pod2/pod2/pkg/plan"
)

// historyKind records the earlier holders of the addresses of a Network. Unlike the memories in
// memory.go, its own memory has facts that the cluster does not have yet. A controller that
// starts without it writes a record about the gap.
type historyKind struct {
	*shared
	// leads is set by the first sync. Another controller may have made earlier changes, and recorded
	// them. stops is set by Finish.
	leads, stops atomic.Bool
	mu           sync.Mutex
	of           map[string]*remembered // by path of the Network
}

// remembered is the memory about one Network.
type remembered struct {
	// versions of its AddressBlocks since the last sync, by name. Before the first sync, only the last one counts.
	versions map[string][]*v1.AddressBlock
	seen     *history.Seen
}

// nodesEvery is how long the node of a pod may stay unknown after the pod was scheduled.
const nodesEvery = time.Second

func newHistoryKind(s *shared) *historyKind {
	return &historyKind{shared: s, of: map[string]*remembered{}}
}

func (r *historyKind) remembered(path string) *remembered {
	m := r.of[path]
	if m == nil {
		m = &remembered{versions: map[string][]*v1.AddressBlock{}}
		r.of[path] = m
	}
	return m
}

// blockChanged keeps a version of an AddressBlock until the next sync. All AddressBlocks of the
// first list come before the first sync of any key, so no address is taken back before that.
func (r *historyKind) blockChanged(block *v1.AddressBlock) []Key {
	paths := networkOfBlock(block)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, path := range paths {
		m := r.remembered(path)
		if !r.leads.Load() {
			m.versions[block.Name] = nil
		}
		m.versions[block.Name] = append(m.versions[block.Name], block)
	}
	return keysOf(KindAddressHistory, paths)
}

// take returns the memory before a sync.
func (r *historyKind) take(path string) (versions map[string][]*v1.AddressBlock, seen *history.Seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.remembered(path)
	return maps.Clone(m.versions), m.seen
}

// keep is called at the end of a sync, which knows all versions that it took.
func (r *historyKind) keep(path string, state history.State, seen *history.Seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state.Network == nil {
		delete(r.of, path)
		return
	}
	m := r.remembered(path)
	m.seen = seen
	for name, taken := range state.Versions {
		if m.versions[name] = slices.Clone(m.versions[name][min(len(taken), len(m.versions[name])):]); len(m.versions[name]) == 0 {
			delete(m.versions, name)
		}
	}
}

// observe reads the view of one Network. It looks up the nodes of pods as long as their
// addresses are bound, because a record is made when the pod is gone.
func (r *historyKind) observe(key Key) (state history.State, again time.Duration, err error) {
	versions, seen := r.take(key.path()) // the cache shows these or later ones
	state = history.State{
		Now: r.clock.Now(), Namespace: key.Namespace, Name: key.Name, Network: r.networks.get(key.Namespace, key.Name),
		Histories: r.histories.sorted(byNetwork, key.path()), Blocks: r.blocks.sorted(byNetwork, key.path()), Nodes: map[types.UID]string{},
		Versions: versions, Seen: seen, Stopping: r.stops.Load(),
	}
	for _, block := range state.Blocks {
		if state.Seen.Located(block) {
			continue
		}
		for _, entry := range block.Spec.Entries {
			if pod := r.pods.get(block.Namespace, entry.Pod); entry.State == v1.AddressBound && pod != nil && pod.UID == entry.PodUID && pod.Spec.NodeName != "" {
				state.Nodes[pod.UID] = pod.Spec.NodeName
			}
		}
	}
	return state, 0, nil
}

// apply makes the write of the plan. The memory loses the records only after the API server has
// accepted them.
func (r *historyKind) apply(ctx context.Context, key Key, state history.State, p history.Plan) (result Result, err error) {
	result.RequeueAfter = p.RequeueAfter
	seen := p.Seen
	defer func() { r.keep(key.path(), state, seen) }()
	if p.Empty() {
		return result, nil
	}
	writes := records[*v1.AddressHistory]{state.Network, p.Confirm, p.Delete, nil, nil, history.ReasonFailedWrite}
	if p.Update != nil {
		writes.update = []plan.Update[*v1.AddressHistory]{*p.Update}
	}
	if p.Create != nil {
		writes.create = []*v1.AddressHistory{p.Create}
	}
	if err := writes.write(ctx, r.shared, key, r.writeHistories); err != nil {
		return result, err
	}
	seen = p.Written
	return result, nil
}

// all returns the keys of all Networks.
func (r *historyKind) all() (keys []Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return keysOf(KindAddressHistory, slices.Sorted(maps.Keys(r.of)))
}

// Time for the last writes before a stop, and between two attempts.
const (
	finishLimit = 5 * time.Second
	finishPause = 100 * time.Millisecond
)

// Finish writes the AddressHistories that wait for more records. Call it when no sync runs any
// more, because the controller stops. The next controller then finds no gap. The cache may not
// show the last writes of AddressBlocks yet.
func (r *Reconciler) Finish(ctx context.Context) {
	h := r.kinds.history
	if !h.leads.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishLimit)
	defer cancel()
	h.stops.Store(true)
	_ = wait.PollUntilContextTimeout(ctx, finishPause, finishLimit/2, true, func(context.Context) (bool, error) { return !r.ownWrites.anyAhead(KindNetwork), nil })
	never := func(error) bool { return false }
	_, _ = forEachUntil(ctx, atOnce, h.all(), never, func(ctx context.Context, key Key) error {
		for {
			result, err := r.Sync(ctx, key)
			if err == nil && (result.RequeueAfter == 0 || result.RequeueAfter > history.WritesEvery) {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(finishPause):
			}
		}
	})
}

// networksOfHistory returns the Networks of an AddressHistory: by its label, and by its owner,
// because a user may have changed the label.
func networksOfHistory(h *v1.AddressHistory) []string {
	paths := labelled(h, v1.NetworkLabel)
	if owner := metav1.GetControllerOfNoCopy(h); owner != nil {
		paths = append(paths, path(h.Namespace, owner.Name))
	}
	return slices.Compact(paths)
}

// wakeFrom adds the events of Networks, AddressBlocks and pods that concern AddressHistories.
func (r *historyKind) wakeFrom(rows []row) {
	for i := range rows {
		switch rows[i].resource {
		case networksResource:
			w := itself[*v1.Network](KindAddressHistory)
			w.same = sameSpec
			rows[i].wakes = append(rows[i].wakes, w)
		case blocksResource:
			rows[i].wakes = append(rows[i].wakes, wake{keys: waking(r.blockChanged)})
		case podsResource:
			rows[i].wakes = append(rows[i].wakes, wake{keys: waking(historiesOfPod), patience: func(_, _ any) time.Duration { return nodesEvery }, same: sameNode})
		}
	}
}

// historiesOfPod returns the Networks that have an address of a scheduled pod.
func historiesOfPod(pod *corev1.Pod) []Key {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return nil
	}
	var keys []Key
	for name := range attachment.Published(pod) {
		keys = append(keys, Key{KindAddressHistory, pod.Namespace, name})
	}
	return keys
}

// sameNode recognizes updates of a pod that do not change its node.
func sameNode(old, new any) bool {
	was, ok1 := old.(*corev1.Pod)
	is, ok2 := new.(*corev1.Pod)
	return ok1 && ok2 && was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName
}
