package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// observeNetwork reads the view of one Network, the ledger before the pods. A
// Network, an owner or a pod that does not exist is absent (nil, no key, no
// element), never an error.
//
// The delay is when to look again at what no event tells; zero: never.
func (r *Reconciler) observeNetwork(key Key) (state network.State, again time.Duration, err error) {
	state = network.State{
		Now: r.clock.Now(), Namespace: key.Namespace, Name: key.Name,
		Blocks:  r.blocksOf(key.Namespace, key.Name),
		Owners:  map[v1.AddressOwner]network.Replicas{},
		Cluster: r.cluster.now(), AllowedOverlaps: r.settings.AllowedOverlaps,
		Agent: r.settings.AgentNamespace != "",
	}
	if state.Network, err = r.getNetwork(key.Namespace, key.Name); err != nil {
		return state, 0, err
	}
	state.Known, state.Pods, again = r.podsOfNetwork(key, state.Blocks)
	if state.Neighbours, err = r.neighbours(key, state.Pods); err != nil {
		return state, 0, err
	}
	for _, n := range state.Neighbours {
		for _, block := range n.Blocks {
			if page := r.ledgers.page(block); page != nil {
				state.Known[block] = &network.Known{Page: page}
			}
		}
	}
	if err := r.addOwners(state.Owners, key.Namespace, state.Known); err != nil {
		return state, 0, err
	}
	return state, again, r.addOwnersOfPods(state.Owners, key.Namespace, state.Pods)
}

func (r *Reconciler) blocksOf(namespace, name string) []*v1.AddressBlock {
	blocks := indexed[*v1.AddressBlock](r.blockIndex, byNetwork, path(namespace, name))
	slices.SortFunc(blocks, plan.ByName)
	return blocks
}

func (r *Reconciler) getNetwork(namespace, name string) (*v1.Network, error) {
	n, err := r.networks.Networks(namespace).Get(name)
	return absent(n, err)
}

// absent turns "not found" into nil; listers know no other error, and this keeps
// it so if they learn one.
func absent[T any](obj *T, err error) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read a cache: %w", err)
	}
	return obj, nil
}

// neighbours are the other Networks that waiting pods ask for.
func (r *Reconciler) neighbours(key Key, pods []*corev1.Pod) ([]network.Neighbour, error) {
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
		n, err := r.getNetwork(key.Namespace, name)
		if err != nil {
			return nil, err
		}
		neighbours = append(neighbours, network.Neighbour{Name: name, Network: n, Blocks: r.blocksOf(key.Namespace, name)})
	}
	return neighbours, nil
}

// addOwners adds those that entries name. Of a settled entry it does not matter.
func (r *Reconciler) addOwners(owners map[v1.AddressOwner]network.Replicas, namespace string, blocks map[*v1.AddressBlock]*network.Known) error {
	var errs []error
	for _, known := range blocks {
		if known.Quiet() {
			continue
		}
		for _, owner := range known.Owners() {
			errs = append(errs, r.addOwner(owners, namespace, owner))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) addOwnersOfPods(owners map[v1.AddressOwner]network.Replicas, namespace string, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		errs = append(errs, r.addOwner(owners, namespace, attachment.Owner(pod)))
	}
	return errors.Join(errs...)
}

// addOwner adds an owner that keeps stable names and exists. Others (ReplicaSets,
// Jobs, none) are never added.
func (r *Reconciler) addOwner(owners map[v1.AddressOwner]network.Replicas, namespace string, owner v1.AddressOwner) error {
	if _, known := owners[owner]; known {
		return nil
	}
	switch owner.Kind {
	case KindPod2:
		p, err := absent(r.pod2s.Pod2s(namespace).Get(owner.Name))
		if err != nil || p == nil {
			return err
		}
		owners[owner] = network.Replicas{Ordinals: pod2.Ordinals(p), Networks: pod2.Networks(p)}
	case "StatefulSet":
		set, err := absent(r.statefulSets.StatefulSets(namespace).Get(owner.Name))
		if err != nil || set == nil {
			return err
		}
		owners[owner] = network.ReplicasOf(set)
	}
	return nil
}
