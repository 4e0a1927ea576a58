package reconcile

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
)

// A pod's creation time has whole seconds, so there are no smaller buckets.
var sinceCreation = []float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}

var (
	bindDuration = k8smetrics.NewHistogram(&k8smetrics.HistogramOpts{
		Name:           "pod2_address_bind_duration_seconds",
		Help:           "Time from the creation of a pod to the write that bound an address to it, for each Network.",
		Buckets:        sinceCreation,
		StabilityLevel: k8smetrics.ALPHA,
	})
	publishDuration = k8smetrics.NewHistogram(&k8smetrics.HistogramOpts{
		Name:           "pod2_address_publish_duration_seconds",
		Help:           "Time from the creation of a pod to the write that published its addresses and lifted the scheduling gate.",
		Buckets:        sinceCreation,
		StabilityLevel: k8smetrics.ALPHA,
	})
	staleDecisions = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Name: "pod2_stale_decisions_total",
		Help: "Decisions that were refused because their view was old, by the kind of the object and the reason. " +
			"own_write means that a cache does not show our last write yet, precondition that the API server refused the write, " +
			"and live_read that a live read or another cache differs.",
		StabilityLevel: k8smetrics.ALPHA,
	}, []string{"kind", "reason"})
)

func init() {
	legacyregistry.MustRegister(bindDuration, publishDuration, staleDecisions)
	// From 0 on: PromQL's increase ignores the first value of a series.
	for _, kind := range Kinds() {
		for _, reason := range []string{"own_write", "precondition", "live_read"} {
			staleDecisions.WithLabelValues(kind, reason)
		}
	}
}

// errOwnWrite is the ErrStale of a cache that does not show our last write.
var errOwnWrite = errors.Join(ErrStale)

// countStale counts an error of a sync if it is a stale decision.
func countStale(kind string, err error) {
	if !errors.Is(err, ErrStale) {
		return
	}
	reason := "live_read"
	status := apierrors.APIStatus(nil)
	switch {
	case errors.Is(err, errOwnWrite):
		reason = "own_write"
	case errors.As(err, &status):
		reason = "precondition"
	}
	staleDecisions.WithLabelValues(kind, reason).Inc()
}

// countBound observes the pods that a write to an AddressBlock bound and that waited for it.
// Entries that are written back after a user deleted an AddressBlock were bound long ago.
func (r *networkKind) countBound(state network.State, write network.BlockWrite) {
	if write.Verb == network.Delete {
		return
	}
	before := map[types.UID]bool{}
	if write.Seen != nil {
		for _, e := range write.Seen.Spec.Entries {
			before[e.PodUID] = true
		}
	}
	for _, e := range write.Block.Spec.Entries {
		if e.State != v1.AddressBound || before[e.PodUID] {
			continue
		}
		i, named := slices.BinarySearchFunc(state.Pods, e.Pod, func(p *corev1.Pod, name string) int { return strings.Compare(p.Name, name) })
		if named && state.Pods[i].UID == e.PodUID && attachment.Gated(state.Pods[i]) {
			bindDuration.Observe(r.sinceCreation(state.Pods[i]).Seconds())
		}
	}
}

// sinceCreation is never negative: the API server's clock may be ahead of the controller's.
func (r *shared) sinceCreation(pod *corev1.Pod) time.Duration {
	return max(0, r.clock.Since(pod.CreationTimestamp.Time))
}
