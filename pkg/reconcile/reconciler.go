// Package reconcile is the only package that touches the API. resources.go is the table
// of the resources that are watched and written. kinds.go is the table of the kinds of
// keys, with one file for each kind: the kind observes (caches to a State), a pure
// package decides (State to a Plan), and the kind applies (Plan to calls). writer.go has
// all writes.
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

	"github.com/pod2/pod2/pkg/plan"
)

// Settings are values that no object in the cluster has.
type Settings struct {
	// Namespace to serve; the informers of namespaced kinds must show this namespace. Empty
	// for all.
	Namespace string
	// ClusterCIDRs are CIDRs that the cluster uses, in addition to those of its objects.
	ClusterCIDRs []netip.Prefix
	// AllowedOverlaps are CIDRs in which Overlay Networks may overlap the addresses of the
	// cluster.
	AllowedOverlaps []netip.Prefix
}

// Reconciler syncs keys. It is safe for concurrent use, as long as no two goroutines sync
// the same key.
type Reconciler struct {
	*shared
	rows  []row
	kinds kinds
	table map[string]syncer

	ownWrites *ownWrites
	over      *confirmedOver
}

// shared has the parts that all kinds use: caches, live reads, writers, and since when
// syncs have failed.
type shared struct {
	caches
	writers
	live      live
	recorder  record.EventRecorder
	clock     clock.PassiveClock
	settings  Settings
	outages   *outages
	podEvents *podEvents
}

// New adds its indexes and transforms to the informers. Call it before they start.
func New(clients Clients, informers Informers, recorder record.EventRecorder, clock clock.PassiveClock, settings Settings) (*Reconciler, error) {
	ownWrites := newOwnWrites(clock)
	s := &shared{
		caches: newCaches(informers), writers: newWriters(clients, ownWrites, clock), live: newLive(clients),
		recorder: recorder, clock: clock, settings: settings, outages: newOutages(clock), podEvents: newPodEvents(clock),
	}
	r := &Reconciler{shared: s, ownWrites: ownWrites, over: newConfirmedOver(s.live, s.writePods.unwatched)}
	r.kinds = newKinds(s, r.over, informers)
	r.table = r.kinds.table()
	if err := r.kinds.multus.definitionKind.watch(); err != nil {
		return nil, fmt.Errorf("watch whether the cluster has NetworkAttachmentDefinitions: %w", err)
	}
	r.rows = newRows(s, r.kinds.addressSlice, r.kinds.history, informers)
	for _, row := range r.rows {
		if err := row.register(); err != nil {
			return nil, fmt.Errorf("set up the informer of %s: %w", row.resource, err)
		}
		ownWrites.stores[row.resource] = row.informer.GetIndexer()
	}
	return r, nil
}

// Watches says which keys an event of each informer concerns. Before the first sync, the
// caller must pass on all objects of the caches, and then all events.
func (r *Reconciler) Watches() []Watch {
	var watches []Watch
	for _, row := range r.rows {
		for _, w := range row.wakes {
			watches = append(watches, Watch{Informer: row.informer, Keys: w.keys, Patience: w.patience, Same: w.same, Optional: row.optional, Changes: w.changes})
		}
	}
	r.podEvents.feed()
	r.kinds.addressSlice.locations.feed()
	return watches
}

// Check returns an error if only a restart lets syncs continue: etcd was restored to an
// older state while this process ran.
func (r *Reconciler) Check() error { return r.ownWrites.check() }

// Sync brings the cluster one step closer to the desired state of the object. It does
// nothing on a view older than its own last write.
func (r *Reconciler) Sync(ctx context.Context, key Key) (Result, error) {
	r.kinds.history.leads.Store(true)
	result, err := r.syncFresh(ctx, key)
	countStale(key.Kind, err)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// Nothing can be created in a namespace that is being deleted, and its objects are
		// deleted with it. That is no failure, and each deletion is an event.
		klog.FromContext(ctx).V(2).Info("The namespace is being deleted", "reason", err)
		r.over.forget(key)
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
		r.over.forget(key)
	}
	r.outages.ended(key, err)
	return result, err
}

// record sends events.
func (s *shared) record(on runtime.Object, events []plan.Event) {
	for _, e := range events {
		s.recorder.Event(on, e.Type, e.Reason, e.Message)
	}
}
