// Package reconcile is the one room that touches the API. resources.go is the table of
// what is watched and written, kinds.go that of what keys mean: for each kind it observes
// (caches to a State), has a pure package decide (State to a Plan) and applies (Plan to
// calls), one file a kind. writer.go is all there is of writes.
package reconcile

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// Settings are what nothing in the cluster says.
type Settings struct {
	// Namespace to serve, which is what the informers of namespaced kinds show; empty
	// for all.
	Namespace string
	// UnderlayMTU is what the network of the nodes takes, in bytes: 1500 on most.
	UnderlayMTU int32
	// AgentNamespace has the pods of pod2-agent, of which Nodes tell; empty: Nodes are
	// left alone.
	AgentNamespace string
	// ClusterCIDRs are used by the cluster, as are those that its objects name.
	ClusterCIDRs []netip.Prefix
	// AllowedOverlaps are CIDRs within which Networks of type Overlay may overlap what
	// the cluster uses.
	AllowedOverlaps []netip.Prefix
}

// Reconciler syncs keys. It is safe for many goroutines, as long as no key is in
// two of them at once.
type Reconciler struct {
	*shared
	rows  []row
	kinds kinds
	table map[string]syncer
}

// shared is what all kinds have: caches, live reads and writers, and the few memories that
// are not of one kind alone.
type shared struct {
	caches
	writers
	live     live
	recorder record.EventRecorder
	clock    clock.PassiveClock
	settings Settings

	ownWrites *ownWrites
	outages   *outages
	// names and attachments are what one kind found and another tells in a status.
	names       *findings[pod2.Names]
	attachments *findings[network.Attachment]
}

// New adds its indexes to the informers, and says what they keep; call it before they
// start.
func New(clients Clients, informers Informers, recorder record.EventRecorder, clock clock.PassiveClock, settings Settings) (*Reconciler, error) {
	pods, over := newUnwatchedPods(clock), newConfirmedOver()
	s := &shared{
		caches: newCaches(informers), recorder: recorder, clock: clock, settings: settings,
		live: newLive(clients, pods, over), ownWrites: newOwnWrites(clock), outages: newOutages(clock),
		names: newFindings[pod2.Names](), attachments: newFindings[network.Attachment](),
	}
	s.writers = newWriters(clients, s.ownWrites, pods, clock)
	r := &Reconciler{shared: s}
	r.kinds = newKinds(s, informers)
	r.table = r.kinds.table()
	if err := r.kinds.multus.installed.watch(); err != nil {
		return nil, fmt.Errorf("learn whether the cluster has NetworkAttachmentDefinitions: %w", err)
	}
	r.rows = newRows(s, r.kinds.network, informers)
	for _, row := range r.rows {
		if err := row.register(); err != nil {
			return nil, fmt.Errorf("set up the informer of %s: %w", row.resource, err)
		}
		s.ownWrites.stores[row.resource] = row.informer.GetIndexer()
	}
	return r, nil
}

// Watches says which keys an event of which informer concerns. Who asks passes all
// events on, from the first.
func (r *Reconciler) Watches() []Watch {
	var watches []Watch
	for _, row := range r.rows {
		for _, w := range row.wakes {
			watches = append(watches, Watch{Informer: row.informer, Keys: w.keys, Patience: w.patience, Same: w.same, Optional: row.optional})
		}
	}
	r.kinds.network.ledgers.feed()
	return watches
}

// Check returns an error if only a restart makes syncs go on: etcd was restored to an
// older state under this process.
func (r *Reconciler) Check() error { return r.ownWrites.check() }

// Sync brings the world one step closer to what the object of the key asks for.
// It does nothing on a view that is older than its own last write.
func (r *Reconciler) Sync(ctx context.Context, key Key) (Result, error) {
	result, err := r.syncFresh(ctx, key)
	countStale(key.Kind, err)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// Nothing can be created in a namespace that is being deleted, and what is
		// in it goes. That is no failure, and each deletion is an event to look again.
		klog.FromContext(ctx).V(2).Info("The namespace is being deleted", "reason", err)
		r.live.confirmedOver.forget(key)
		r.outages.ended(key, nil)
		return Result{}, nil
	}
	return result, err
}

func (r *Reconciler) syncFresh(ctx context.Context, key Key) (Result, error) {
	if why := r.ownWrites.ahead(key); why != "" {
		return Result{}, fmt.Errorf("sync %s: %s: %w", key, why, errOwnWrite)
	}
	kind, known := r.table[key.Kind]
	if !known {
		return Result{}, fmt.Errorf("sync %s: no such kind", key)
	}
	result, err := kind.sync(ctx, key)
	if err == nil {
		r.live.confirmedOver.forget(key)
	}
	r.outages.ended(key, err)
	return result, err
}

// record tells people.
func (s *shared) record(on runtime.Object, events []plan.Event) {
	for _, e := range events {
		s.recorder.Event(on, e.Type, e.Reason, e.Message)
	}
}
