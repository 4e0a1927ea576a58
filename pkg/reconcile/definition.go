package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/multus"
	"github.com/pod2/pod2/pkg/plan"
)

// installedEvery is how often a Network looks whether the cluster has
// NetworkAttachmentDefinitions by now, or no longer: an empty list of them is no event,
// and neither is none.
const installedEvery = time.Minute

// candidates is how many numbers a Network tries at a time. With half of all sixteen
// million taken, one in a million Networks would find none.
const candidates = 20

func (r *Reconciler) syncDefinition(ctx context.Context, key Key) (Result, error) {
	if !r.installed.known() {
		return Result{RequeueAfter: time.Second}, nil // or a restart would tell of no definitions, and a moment later of all
	}
	state, err := r.observeDefinition(key)
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	plan := multus.Diff(state)
	if err := r.applyDefinition(ctx, key, state, plan); err != nil {
		return Result{}, err
	}
	if state.Network == nil {
		return Result{}, nil
	}
	return Result{RequeueAfter: installedEvery}, nil
}

// observeDefinition reads the view of what attaches pods to one Network.
func (r *Reconciler) observeDefinition(key Key) (state multus.State, err error) {
	state = multus.State{
		Now: r.clock.Now(), Namespace: key.Namespace, Name: key.Name, UnderlayMTU: r.settings.UnderlayMTU,
		Installed: r.installed.now(),
		VNIs:      indexed[*v1.VNI](r.informers.VNIs.Informer().GetIndexer(), byNetwork, path(key.Namespace, key.Name)),
	}
	slices.SortFunc(state.VNIs, plan.ByName)
	if state.Network, err = r.getNetwork(key.Namespace, key.Name); err != nil || state.Network == nil {
		return state, err
	}
	if wire := multus.Wire(state.Network); wire != "" {
		state.Others = indexed[*v1.Network](r.informers.Networks.Informer().GetIndexer(), byWire, wire)
		state.Others = slices.DeleteFunc(state.Others, func(n *v1.Network) bool { return n.Namespace == key.Namespace && n.Name == key.Name })
		slices.SortFunc(state.Others, func(a, b *v1.Network) int {
			return strings.Compare(path(a.Namespace, a.Name), path(b.Namespace, b.Name))
		})
	}
	numbers := multus.Numbers(state.Network.UID, candidates)
	if told := state.Network.Status.VNI; told != 0 {
		numbers = append(numbers, told)
	}
	for _, vni := range numbers {
		taken, err := absent(r.informers.VNIs.Lister().Get(multus.Name(vni)))
		if err != nil {
			return state, err
		}
		if taken == nil {
			state.Candidates = append(state.Candidates, vni)
		}
	}
	if state.Installed {
		state.Definition, err = absent(r.informers.Definitions.Lister().NetworkAttachmentDefinitions(key.Namespace).Get(key.Name))
	}
	return state, err
}

// applyDefinition writes the plan in the order of its fields. What failed is what the
// status says.
func (r *Reconciler) applyDefinition(ctx context.Context, key Key, state multus.State, plan multus.Plan) error {
	steps := r.steps(key)
	if steps.do(multus.ReasonFailedWrite, func() error { return r.writeVNIs(ctx, key, plan) }) {
		steps.do(multus.ReasonFailedWrite, func() error { return r.writeDefinition(ctx, key, state, plan) })
	}
	status, events := plan.Status, plan.Events
	if steps.failed() {
		status, events = plan.Observed()
		if len(steps.told) > 0 {
			status, events = multus.WithFailure(state, steps.told[0].Message)
		}
	}
	if status != nil && !steps.do("", func() error { return r.updateAttachable(ctx, key, state.Network, *status) }) {
		return steps.err()
	}
	r.record(state.Network, events)
	return steps.err()
}

// updateAttachable writes the status of a Network for the key of its attachment.
func (r *Reconciler) updateAttachable(ctx context.Context, key Key, current *v1.Network, status v1.NetworkStatus) error {
	next := current.DeepCopy()
	next.Status = status
	updated, err := rewriteStatus(ctx, r.clients.Sample.SamplecrdV1().Networks(key.Namespace), current, next)
	if err != nil {
		return fmt.Errorf("update the status for %s: %w", key, stale(err))
	}
	r.written.wrote(key, networksResource, updated.ResourceVersion)
	return nil
}

// writeVNIs claims the number of the Network, and releases those that are nobody's.
func (r *Reconciler) writeVNIs(ctx context.Context, key Key, plan multus.Plan) error {
	vnis := r.clients.Sample.SamplecrdV1().VNIs()
	if plan.Claim != nil {
		created, err := vnis.Create(ctx, plan.Claim, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("claim VNI %s for %s: %w", plan.Claim.Name, key, stale(err))
		}
		r.written.wrote(key, vnisResource, created.ResourceVersion)
		klog.FromContext(ctx).Info("Claimed VNI", "vni", created.Name)
	}
	if len(plan.Release) == 0 {
		return nil
	}
	live, err := r.clients.Sample.SamplecrdV1().Networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("get %s before a VNI of it is released: %w", key, err)
	}
	for _, release := range plan.Release {
		name := release.Name
		if !release.Unused(live) {
			return fmt.Errorf("release VNI %s (%s): the Network stands: %w", name, release.Reason, ErrStale)
		}
		err := vnis.Delete(ctx, name, asSeen(release.Deletion))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("release VNI %s (%s): %w", name, release.Reason, stale(err))
		}
		r.written.deleted(key, vnisResource, name, release.UID)
		klog.FromContext(ctx).Info("Released VNI", "vni", name, "reason", release.Reason)
	}
	return nil
}

func (r *Reconciler) writeDefinition(ctx context.Context, key Key, state multus.State, plan multus.Plan) error {
	if plan.Create == nil && plan.Update == nil {
		return nil
	}
	// What is made for a Network that is gone would be collected as garbage, and made
	// again, and so on.
	if err := r.confirmNetwork(ctx, key, state.Network); err != nil {
		return err
	}
	if plan.Create != nil {
		return r.definitions.create(ctx, key, plan.Create)
	}
	return r.definitions.update(ctx, key, *plan.Update)
}

// definitionWatches says which Networks' attachment an event concerns.
func (r *Reconciler) definitionWatches() []Watch {
	return []Watch{
		{Informer: r.informers.Networks.Informer(), Keys: func(obj any) []Key {
			n, ok := obj.(*v1.Network)
			if !ok {
				return nil
			}
			return []Key{{KindDefinition, n.Namespace, n.Name}}
		}},
		{Informer: r.informers.Networks.Informer(), Keys: r.wireKeys, Same: func(old, new any) bool {
			was, ok1 := old.(*v1.Network)
			is, ok2 := new.(*v1.Network)
			return ok1 && ok2 && was.UID == is.UID && equality.Semantic.DeepEqual(was.Spec, is.Spec)
		}},
		{Informer: r.informers.VNIs.Informer(), Keys: func(obj any) []Key {
			// VNIs are everybody's: those of Networks that another controller serves, too.
			vni, ok := obj.(*v1.VNI)
			if !ok || r.settings.Namespace != "" && r.settings.Namespace != vni.Spec.Network.Namespace {
				return nil
			}
			return []Key{{KindDefinition, vni.Spec.Network.Namespace, vni.Spec.Network.Name}}
		}},
		{Informer: r.informers.Definitions.Informer(), Optional: true, Keys: func(obj any) []Key {
			d, ok := obj.(*nadv1.NetworkAttachmentDefinition)
			if !ok {
				return nil
			}
			return []Key{{KindDefinition, d.Namespace, d.Name}}
		}},
	}
}

// wireKeys are the other Networks on the wire of one: their conditions may name it.
func (r *Reconciler) wireKeys(obj any) []Key {
	n, ok := obj.(*v1.Network)
	if !ok || multus.Wire(n) == "" {
		return nil
	}
	var keys []Key
	for _, other := range indexed[*v1.Network](r.informers.Networks.Informer().GetIndexer(), byWire, multus.Wire(n)) {
		if other.Namespace != n.Namespace || other.Name != n.Name {
			keys = append(keys, Key{KindDefinition, other.Namespace, other.Name})
		}
	}
	return keys
}

// addDefinitionIndexes is part of New.
func (i Informers) addDefinitionIndexes() error {
	if err := i.Networks.Informer().AddIndexers(cache.Indexers{byWire: networkWire}); err != nil {
		return err
	}
	return i.VNIs.Informer().AddIndexers(cache.Indexers{byNetwork: vniNetwork})
}

func vniNetwork(obj any) ([]string, error) {
	vni, ok := obj.(*v1.VNI)
	if !ok {
		return nil, nil
	}
	return []string{path(vni.Spec.Network.Namespace, vni.Spec.Network.Name)}, nil
}

func networkWire(obj any) ([]string, error) {
	n, ok := obj.(*v1.Network)
	if !ok || multus.Wire(n) == "" {
		return nil, nil
	}
	return []string{multus.Wire(n)}, nil
}
