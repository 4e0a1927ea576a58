package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/network/multus"
)

// multusKind lets Multus attach pods to Networks.
type multusKind struct {
	*shared
	attachments    *findings[network.Attachment]
	definitionKind *optionalKind
}

// installedEvery is how often a Network checks whether the cluster has the kind
// NetworkAttachmentDefinition. Neither an empty list of them nor a missing kind is an event.
const installedEvery = time.Minute

func newMultusKind(s *shared, attachments *findings[network.Attachment], i Informers) *multusKind {
	informer := i.Definitions.Informer()
	return &multusKind{s, attachments, &optionalKind{informer: informer, synced: informer.HasSynced}}
}

// observe reads the view of how pods are attached to one Network. The Network's status
// will soon report earlier findings, so observe treats them as reported.
func (r *multusKind) observe(key Key) (state multus.State, again time.Duration, err error) {
	if !r.definitionKind.known() {
		return state, time.Second, errNothing // else a restart would report no definitions, and all of them a moment later
	}
	state = multus.State{
		Now: r.clock.Now(), Namespace: key.Namespace, Name: key.Name,
		Installed: r.definitionKind.served(),
		VNIs:      r.vnis.sorted(byNetwork, key.path()),
		Network:   r.networks.get(key.Namespace, key.Name),
	}
	if state.Network == nil {
		return state, 0, nil
	}
	if found := r.attachments.of(state.Network, toldBy(state.Network)); found != nil {
		state.Network = state.Network.DeepCopy()
		found.Tell(&state.Network.Status)
	}
	for _, w := range wire(state.Network) {
		state.Others = slices.DeleteFunc(r.networks.by(byWire, w), func(n *v1.Network) bool { return pathOf(n) == key.path() })
		slices.SortFunc(state.Others, func(a, b *v1.Network) int { return strings.Compare(pathOf(a), pathOf(b)) })
	}
	state.Candidates = multus.Candidates(state.Network, func(vni string) bool { return r.vnis.get("", vni) != nil })
	if state.Installed {
		state.Definition = r.definitions.get(key.Namespace, key.Name)
	}
	return state, installedEvery, nil
}

func toldBy(n *v1.Network) func(network.Attachment) bool {
	return func(a network.Attachment) bool { return a.Told(n.Status) }
}

// apply writes the plan in the order of its fields. The condition reports a failure.
func (r *multusKind) apply(ctx context.Context, key Key, state multus.State, plan multus.Plan) (result Result, err error) {
	steps := r.steps(key)
	if steps.do(multus.ReasonFailedWrite, func() error { return r.changeVNIs(ctx, key, plan) }) {
		steps.do(multus.ReasonFailedWrite, func() error { return r.changeDefinition(ctx, key, state, plan) })
	}
	status, events := plan.Status, plan.Events
	if steps.failed() {
		status, events = plan.Observed()
		if len(steps.told) > 0 {
			status, events = multus.WithFailure(state, steps.told[0].Message)
		}
	}
	if status != nil && !steps.ended {
		r.attachments.tell(state.Network, network.Attachment{
			VNI: status.VNI, Condition: *meta.FindStatusCondition(status.Conditions, v1.ConditionAttachable),
		})
		result.Wakes = []Key{{KindNetwork, key.Namespace, key.Name}}
		r.record(state.Network, events)
	}
	return result, steps.err()
}

// changeVNIs claims the number of the Network and releases unused ones.
func (r *multusKind) changeVNIs(ctx context.Context, key Key, p multus.Plan) error {
	if p.Claim != nil {
		if _, err := r.writeVNIs.create(ctx, key, p.Claim, "claimed for "+key.String()); err != nil {
			return err
		}
	}
	if len(p.Release) == 0 {
		return nil
	}
	live, err := r.live.networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("get %s before releasing one of its VNIs: %w", key, err)
	}
	for _, release := range p.Release {
		if !release.Unused(live) {
			return fmt.Errorf("release VNI %s (%s): the Network still exists: %w", release.Name, release.Reason, ErrStale)
		}
		if err := r.writeVNIs.delete(ctx, key, release.Deletion); err != nil {
			return err
		}
	}
	return nil
}

func (r *multusKind) changeDefinition(ctx context.Context, key Key, state multus.State, p multus.Plan) error {
	if p.Create == nil && p.Update == nil {
		return nil
	}
	// The garbage collector would delete a definition of a Network that is gone, the
	// controller would create it again, and so on.
	if err := r.live.confirmNetwork(ctx, key, state.Network); err != nil {
		return err
	}
	if p.Create != nil {
		_, err := r.writeDefinitions.create(ctx, key, p.Create, "")
		return err
	}
	_, err := r.writeDefinitions.update(ctx, key, p.Update.Was, p.Update.Object, p.Update.Reason)
	return err
}

// byWire finds Networks of type CNI on a wire. Its values are the wire's text.
const byWire = "wire"

func networkOfVNI(vni *v1.VNI) []string {
	return []string{path(vni.Spec.Network.Namespace, vni.Spec.Network.Name)}
}

func wire(n *v1.Network) []string {
	if multus.Wire(n) == "" {
		return nil
	}
	return []string{multus.Wire(n)}
}

// sameSpec recognizes updates of a Network that the others on its wire need not know.
func sameSpec(old, new any) bool {
	was, ok1 := old.(*v1.Network)
	is, ok2 := new.(*v1.Network)
	return ok1 && ok2 && was.UID == is.UID && equality.Semantic.DeepEqual(was.Spec, is.Spec)
}

// othersOnWire returns the other Networks on a Network's wire: their conditions may name it.
func (s *caches) othersOnWire(n *v1.Network) []Key {
	var keys []Key
	for _, w := range wire(n) {
		for _, other := range s.networks.by(byWire, w) {
			if other.Namespace != n.Namespace || other.Name != n.Name {
				keys = append(keys, keyOf(KindMultus, other))
			}
		}
	}
	return keys
}

// A VNI wakes its Network. VNIs are cluster-wide, so some belong to Networks of another
// controller.
func (s *shared) wokenByVNI(vni *v1.VNI) []Key {
	if s.settings.Namespace != "" && s.settings.Namespace != vni.Spec.Network.Namespace {
		return nil
	}
	return keysOf(KindMultus, networkOfVNI(vni))
}
