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
	"github.com/pod2/pod2/pkg/network/addressslice"
	"github.com/pod2/pod2/pkg/network/history"
	"github.com/pod2/pod2/pkg/network/multus"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
	"github.com/pod2/pod2/pkg/sidecar"
)

// Kinds of keys.
const (
	KindNetwork = "Network"
	KindPod     = "Pod"
	KindPod2    = "Pod2"
	KindCronTab = "CronTab"
	// KindDNS has the name of a Pod2 and is about the DNS names of its replicas. It is a
	// separate kind, so problems with Services never affect pods.
	KindDNS = "DNS"
	// KindMultus has the name of a Network and is about its VNI and its
	// NetworkAttachmentDefinition. It is a separate kind, so problems with Multus never
	// prevent pods from getting addresses.
	KindMultus = "Multus"
	// KindAddressSlice has the name of a Network and is about its AddressSlices, which agents
	// read. Without a name, it is about those of the nodes. It is a separate kind, because it
	// waits for pods to be scheduled, and no pod waits for it.
	KindAddressSlice = "AddressSlice"
	// KindAddressHistory has the name of a Network and is about its AddressHistories. It is a
	// separate kind, because no pod waits for it.
	KindAddressHistory = "AddressHistory"
	KindSidecar        = "Sidecar"
)

// Kinds returns all kinds.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds{}.table())) }

// kinds has the syncer of each kind. Each kind has its own memory.
type kinds struct {
	network      *networkKind
	pod          *podKind
	pod2         *pod2Kind
	cronTab      *cronTabKind
	dns          *dnsKind
	multus       *multusKind
	addressSlice *addressSliceKind
	history      *historyKind
	sidecar      *sidecarKind
}

func newKinds(s *shared, over *confirmedOver, i Informers) kinds {
	// One of these kinds finds something, and another reports it in its status.
	names, attachments := newFindings[pod2.Names](), newFindings[network.Attachment]()
	return kinds{
		network:      newNetworkKind(s, over, attachments, i),
		pod:          &podKind{s},
		pod2:         newPod2Kind(s, names),
		cronTab:      newCronTabKind(s),
		dns:          newDNSKind(s, over, names),
		multus:       newMultusKind(s, attachments, i),
		addressSlice: newAddressSliceKind(s),
		history:      newHistoryKind(s),
		sidecar:      newSidecarKind(s),
	}
}

// table has three functions for each kind: observe, the pure function that decides, and
// apply.
func (k kinds) table() map[string]syncer {
	return map[string]syncer{
		KindNetwork: kind[network.State, network.Plan]{k.network.observe, network.Diff, k.network.apply},
		KindPod:     kind[network.PodState, network.PodPlan]{k.pod.observe, network.Publish, k.pod.apply},
		KindPod2:    kind[pod2.State, pod2.Plan]{k.pod2.observe, pod2.Diff, k.pod2.apply},
		KindCronTab: kind[crontab.State, crontab.Plan]{k.cronTab.observe, crontab.Diff, k.cronTab.apply},
		KindDNS:     kind[dns.State, dns.Plan]{k.dns.observe, dns.Diff, k.dns.apply},
		KindMultus:  kind[multus.State, multus.Plan]{k.multus.observe, multus.Diff, k.multus.apply},

		KindAddressSlice:   kind[addressslice.State, addressslice.Plan]{k.addressSlice.observe, addressslice.Diff, k.addressSlice.apply},
		KindAddressHistory: kind[history.State, history.Plan]{k.history.observe, history.Diff, k.history.apply},
		KindSidecar:        kind[sidecar.State, sidecar.Plan]{k.sidecar.observe, sidecar.Diff, k.sidecar.apply},
	}
}

type syncer interface {
	sync(ctx context.Context, key Key) (Result, error)
}

// kind has the functions that sync the keys of one Kind.
type kind[State, Plan any] struct {
	// observe reads caches. The delay says when to look again at something that causes no
	// event; zero: never. errNothing: there is nothing to decide now.
	observe func(Key) (State, time.Duration, error)
	// decide is pure.
	decide func(State) Plan
	// apply writes the plan in the order of its fields. If a write fails, it continues with
	// those that do not depend on it.
	apply func(context.Context, Key, State, Plan) (Result, error)
}

// errNothing ends a sync that has nothing to decide: its object is gone, or the key comes
// again later.
var errNothing = errors.New("nothing to decide")

// errLookAgain is the answer of apply to a plan that needs another view. It wrote nothing, and a sync
// observes, decides and applies once more at once.
var errLookAgain = errors.New("compare with the cache before the writes")

func (k kind[S, P]) sync(ctx context.Context, key Key) (Result, error) {
	result, err := k.attempt(ctx, key)
	if errors.Is(err, errLookAgain) {
		result, err = k.attempt(ctx, key)
	}
	return result, err
}

func (k kind[S, P]) attempt(ctx context.Context, key Key) (Result, error) {
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
