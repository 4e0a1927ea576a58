package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pod2/pod2/pkg/crontab"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/network/multus"
	"github.com/pod2/pod2/pkg/node"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
)

// Kinds of keys.
const (
	KindNetwork = "Network"
	KindPod     = "Pod"
	KindPod2    = "Pod2"
	KindCronTab = "CronTab"
	// KindDNS has the name of a Pod2 and is about the names of its replicas: apart, so
	// that trouble with Services never harms pods.
	KindDNS = "DNS"
	// KindMultus has the name of a Network and is about its VNI and its
	// NetworkAttachmentDefinition: apart, so that trouble with Multus never keeps
	// addresses from pods.
	KindMultus = "Multus"
	// KindNode has no namespace, and is about what a Node says of its data plane.
	KindNode = "Node"
)

// Kinds are all of them.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds{}.table())) }

// kinds are what keys mean. What a kind remembers, no other sees.
type kinds struct {
	network *networkKind
	pod     *podKind
	pod2    *pod2Kind
	cronTab *cronTabKind
	dns     *dnsKind
	multus  *multusKind
	node    *nodeKind
}

func newKinds(s *shared, i Informers) kinds {
	return kinds{
		network: newNetworkKind(s, i),
		pod:     &podKind{s},
		pod2:    newPod2Kind(s),
		cronTab: newCronTabKind(s),
		dns:     newDNSKind(s),
		multus:  newMultusKind(s, i),
		node:    &nodeKind{s},
	}
}

// table has, for each kind, how it observes, what pure function decides, and how it applies.
func (k kinds) table() map[string]syncer {
	return map[string]syncer{
		KindNetwork: kind[network.State, network.Plan]{k.network.observe, network.Diff, k.network.apply},
		KindPod:     kind[network.PodState, network.PodPlan]{k.pod.observe, network.Publish, k.pod.apply},
		KindPod2:    kind[pod2.State, pod2.Plan]{k.pod2.observe, pod2.Diff, k.pod2.apply},
		KindCronTab: kind[crontab.State, crontab.Plan]{k.cronTab.observe, crontab.Diff, k.cronTab.apply},
		KindDNS:     kind[dns.State, dns.Plan]{k.dns.observe, dns.Diff, k.dns.apply},
		KindMultus:  kind[multus.State, multus.Plan]{k.multus.observe, multus.Diff, k.multus.apply},
		KindNode:    kind[node.State, node.Plan]{k.node.observe, node.Diff, k.node.apply},
	}
}

type syncer interface {
	sync(ctx context.Context, key Key) (Result, error)
}

// kind is what the keys of one Kind mean.
type kind[State, Plan any] struct {
	// observe reads caches. The delay is when to look again at what no event tells;
	// zero: never. errNothing: there is nothing to decide now.
	observe func(Key) (State, time.Duration, error)
	// decide is pure.
	decide func(State) Plan
	// apply writes the plan in the order of its fields. What failed on the way keeps
	// nothing from being done that does not depend on it.
	apply func(context.Context, Key, State, Plan) (Result, error)
}

// errNothing ends a sync that has nothing to decide: its object is gone, or it is to
// come again later.
var errNothing = errors.New("nothing to decide")

func (k kind[S, P]) sync(ctx context.Context, key Key) (Result, error) {
	state, again, err := k.observe(key)
	if errors.Is(err, errNothing) {
		return Result{RequeueAfter: again}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("observe %s: %w", key, err)
	}
	result, err := k.apply(ctx, key, state, k.decide(state))
	result.RequeueAfter = plan.Soonest(result.RequeueAfter, again)
	return result, err
}
