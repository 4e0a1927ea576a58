package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/pod2"
)

// networkKind syncs Networks.
type networkKind struct {
	*shared
	cluster          *cluster
	ledgers          *ledgers
	over             *confirmedOver
	attachments      *findings[network.Attachment]
	counts, releases *throttle
	// looks rests a Network whose addresses wait to be taken back.
	looks *throttle
}

// countsEvery is how long the numbers in a status stay unchanged after a write, while
// only numbers change: countsPerPod for each pod, at most mostCounts. When 1,000 replicas
// start within seconds, their Pod2 and its Networks report this once a second instead of a
// hundred times.
const (
	countsEvery  = 500 * time.Millisecond
	countsPerPod = time.Millisecond
	mostCounts   = time.Second
)

// countsOf returns countsEvery for a number of pods.
func countsOf(pods int) time.Duration {
	return min(max(countsEvery, time.Duration(pods)*countsPerPod), mostCounts)
}

// releasesEvery is how long the addresses of terminated pods stay in the AddressBlocks
// after some were taken back, while no pod waits for one: releasesPerBlock for each
// AddressBlock, at most mostReleases. A write to an AddressBlock is expensive: 2,000 pods
// that terminate at once cause a few dozen writes instead of 800. With 10,000 pods each
// round writes 40 of them, so it waits longer.
const (
	releasesEvery    = 2 * time.Second
	releasesPerBlock = 200 * time.Millisecond
	mostReleases     = 10 * time.Second
)

// releasesOf returns releasesEvery for a number of AddressBlocks.
func releasesOf(blocks int) time.Duration {
	return min(max(releasesEvery, time.Duration(blocks)*releasesPerBlock), mostReleases)
}

// How long a Network that bound addresses binds no others: bindsEvery, and bindsPerAddress more for
// each that it changed above fewBinds, at most mostBinds. A pod that comes alone is bound at once.
// Pods that come one by one, sixteen at once, share a write of an AddressBlock: it has up to 256
// entries, and costs more than twenty of a pod's. While thousands of pods are created, the API
// server is busy, and each write of an AddressBlock delays them all.
const (
	bindsEvery      = 100 * time.Millisecond
	fewBinds        = 16
	bindsPerAddress = 20 * time.Millisecond
	mostBinds       = 500 * time.Millisecond
)

// bindsOf returns how long a Network rests after these writes.
func bindsOf(written []network.BlockWrite) time.Duration {
	bound := 0
	for _, w := range written {
		if w.Binds {
			bound += len(w.Changes)
		}
	}
	if bound == 0 {
		return 0
	}
	return min(bindsEvery+time.Duration(max(bound-fewBinds, 0))*bindsPerAddress, mostBinds)
}

// looksBurst is how many plans may find that addresses wait to be taken back, before the Network
// rests for bindsEvery after each. While 10,000 pods terminate, their events cause ten plans a
// second, not one for each event.
const looksBurst = 5

func newNetworkKind(s *shared, over *confirmedOver, attachments *findings[network.Attachment], i Informers) *networkKind {
	looks := newThrottle(s.clock, bindsEvery)
	looks.burst = looksBurst
	return &networkKind{
		shared: s, cluster: newCluster(i, s.settings.ClusterCIDRs), ledgers: newLedgers(s.podEvents), over: over, attachments: attachments,
		counts: newThrottle(s.clock, countsEvery), releases: newThrottle(s.clock, releasesEvery), looks: looks,
	}
}

// observe reads the view of one Network: first the AddressBlocks, then the pods. A
// Network, owner or pod that does not exist is absent (nil, no key, no element), never an
// error.
func (r *networkKind) observe(key Key) (state network.State, again time.Duration, err error) {
	state = network.State{
		Now: r.clock.Now(), Namespace: key.Namespace, Name: key.Name,
		Network: r.networks.get(key.Namespace, key.Name), Blocks: r.blocks.sorted(byNetwork, key.path()),
		Owners:  map[v1.AddressOwner]network.Replicas{},
		Cluster: r.cluster.currentRanges(), AllowedOverlaps: r.settings.AllowedOverlaps,
		NumbersHeld: r.counts.left(key), ReleasesHeld: r.releases.left(key),
	}
	if state.Network == nil {
		r.attachments.forget(key.path())
	} else {
		state.Attachment = r.attachments.of(state.Network, toldBy(state.Network))
	}
	state.Known, state.Pods, again = r.podsOfNetwork(key, state.Blocks)
	state.Neighbours = r.neighbours(key, state.Pods)
	for _, n := range state.Neighbours {
		for _, block := range n.Blocks {
			if page := r.ledgers.page(block); page != nil {
				state.Known[block] = &network.Known{Page: page}
			}
		}
	}
	// The owner of a settled entry does not matter.
	for _, known := range state.Known {
		if !known.Quiet() {
			for _, owner := range known.Owners() {
				r.addOwner(state.Owners, key.Namespace, owner)
			}
		}
	}
	for _, pod := range state.Pods {
		r.addOwner(state.Owners, key.Namespace, attachment.Owner(pod))
	}
	return state, again, nil
}

// neighbours returns the other Networks that waiting pods ask for.
func (r *networkKind) neighbours(key Key, pods []*corev1.Pod) []network.Neighbour {
	var names []string
	for _, pod := range pods {
		requests, waits := network.Wants(pod)
		if !waits || !slices.ContainsFunc(requests, func(q attachment.Request) bool { return q.Network == key.Name }) {
			continue
		}
		for _, q := range requests {
			if q.Network != key.Name {
				names = append(names, q.Network)
			}
		}
	}
	slices.Sort(names)
	var neighbours []network.Neighbour
	for _, name := range slices.Compact(names) {
		neighbours = append(neighbours, network.Neighbour{
			Name: name, Network: r.networks.get(key.Namespace, name), Blocks: r.blocks.sorted(byNetwork, path(key.Namespace, name)),
		})
	}
	return neighbours
}

// addOwner adds an owner that keeps names stable and exists. It never adds others
// (ReplicaSets, Jobs, none).
func (s *caches) addOwner(owners map[v1.AddressOwner]network.Replicas, namespace string, owner v1.AddressOwner) {
	if _, known := owners[owner]; known {
		return
	}
	switch owner.Kind {
	case KindPod2:
		if p := s.pod2s.get(namespace, owner.Name); p != nil {
			owners[owner] = network.Replicas{Ordinals: pod2.Ordinals(p), Networks: pod2.Networks(p)}
		}
	case "StatefulSet":
		if set := s.statefulSets.get(namespace, owner.Name); set != nil {
			owners[owner] = network.ReplicasOf(set)
		}
	}
}

func (r *networkKind) apply(ctx context.Context, key Key, state network.State, plan network.Plan) (Result, error) {
	result := Result{RequeueAfter: plan.RequeueAfter}
	if plan.MayWait && plan.Empty() {
		r.looks.begin(key)
		result.Rest = r.looks.left(key)
		return result, nil
	}
	steps, current, blocks := r.steps(key), state.Network, plan.Blocks
	if (plan.AddFinalizer || plan.Begin) && !steps.do(network.ReasonFailedWrite, func() (err error) {
		updated, err := r.mark(ctx, key, current, plan)
		if err == nil {
			current = updated
		}
		return err
	}) {
		blocks = plan.WithoutFinalizer().Blocks
	}
	var written []network.BlockWrite
	steps.do(network.ReasonFailedWrite, func() (err error) {
		written, err = r.writeLedger(ctx, key, state, blocks)
		return err
	})
	if !steps.failed() {
		r.record(state.Network, plan.Reassigned)
	}
	if plan.RemoveFinalizer && !steps.failed() && steps.do(network.ReasonFailedWrite, func() error { return r.removeFinalizer(ctx, key, current) }) {
		return result, nil // the Network may be gone now, so its status has nothing left to report
	}
	if steps.failed() {
		return result, r.tellFailure(ctx, steps, state, current, without(plan.Blocks, written))
	}
	result.Rest = bindsOf(written)
	// A pod whose condition cannot be written does not prevent the Network's status.
	_, untold := forEachChanged(ctx, plan.Waits, func(ctx context.Context, w network.Wait) error {
		return r.tellPod(ctx, key, w)
	})
	if plan.Status != nil {
		if err := r.updateStatus(ctx, key, state, current, *plan.Status); err != nil {
			return result, errors.Join(untold, err)
		}
	}
	r.record(state.Network, plan.Events)
	if plan.MayWait && untold == nil {
		r.releases.beginFor(key, releasesOf(len(state.Blocks)))
	}
	return result, untold
}

// mark adds the finalizer, or the mark that the Network begins to bind, in one write.
func (r *networkKind) mark(ctx context.Context, key Key, current *v1.Network, plan network.Plan) (*v1.Network, error) {
	if err := r.live.confirmAlive(ctx, key, plan.Alive); err != nil {
		return nil, err
	}
	return r.writeNetworks.update(ctx, key, current, plan.Marked(current), "in use")
}

func (r *networkKind) removeFinalizer(ctx context.Context, key Key, current *v1.Network) error {
	if err := r.live.confirmSealed(ctx, key, current); err != nil {
		return err
	}
	next := current.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == v1.InUseFinalizer })
	_, err := r.writeNetworks.update(ctx, key, current, next, "every AddressBlock is sealed")
	return err
}

func (r *networkKind) updateStatus(ctx context.Context, key Key, state network.State, current *v1.Network, status v1.NetworkStatus) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := r.writeNetworks.updateStatus(ctx, key, current, next)
	if err == nil {
		r.attachments.wrote(updated, state.Attachment)
		r.counts.beginFor(key, countsOf(int(max(current.Status.Bound, status.Bound))))
	}
	return err
}

// tellFailure is for a Network whose plan failed. It writes the observed status and the
// failure, and the conditions of pods that wait for an AddressBlock that was not written. It
// returns the failure.
func (r *networkKind) tellFailure(ctx context.Context, steps *steps, state network.State, current *v1.Network, unwritten []network.BlockWrite) error {
	if steps.ended || current == nil {
		return steps.err()
	}
	message := ""
	if len(steps.told) > 0 {
		message = steps.told[0].Message
	}
	status := network.Observed(state, message)
	if status != nil && steps.do("", func() error { return r.updateStatus(ctx, steps.key, state, current, *status) }) && message != "" {
		r.recorder.Event(current, corev1.EventTypeWarning, network.ReasonFailedWrite, message)
	}
	if message != "" {
		steps.do("", func() error {
			_, err := forEachChanged(ctx, network.Unwritten(state, unwritten, message), func(ctx context.Context, w network.Wait) error {
				return r.tellPod(ctx, steps.key, w)
			})
			return err
		})
	}
	return steps.err()
}

// without returns the planned writes that were not made.
func without(planned, written []network.BlockWrite) []network.BlockWrite {
	return slices.DeleteFunc(slices.Clone(planned), func(w network.BlockWrite) bool {
		return slices.ContainsFunc(written, func(done network.BlockWrite) bool { return done.Block.Name == w.Block.Name })
	})
}
