package app

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/pod2/pod2/internal/serving"
	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	samplelisters "github.com/pod2/pod2/pkg/client/listers/samplecrd/v1"
	"github.com/pod2/pod2/pkg/reconcile"
)

var (
	syncTotal = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Name:           "pod2_sync_total",
		Help:           "Syncs by the kind of their object and their result: success, retry (a conflict or a lagging cache), error, panic, cancelled.",
		StabilityLevel: k8smetrics.ALPHA,
	}, []string{"kind", "result"})

	syncDuration = k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Name:           "pod2_sync_duration_seconds",
		Help:           "Duration of a sync, by the kind of its object.",
		Buckets:        k8smetrics.ExponentialBuckets(0.0001, 4, 10), // 0.1 ms (nothing to do) to 26 s
		StabilityLevel: k8smetrics.ALPHA,
	}, []string{"kind"})
)

func init() {
	legacyregistry.MustRegister(syncTotal, syncDuration)
	// From 0 on: PromQL's increase ignores the first value of a series, which would be
	// the first panic.
	for _, kind := range reconcile.Kinds() {
		for _, result := range []string{"success", "retry", "error", "panic", "cancelled"} {
			syncTotal.WithLabelValues(kind, result)
		}
	}
}

// ObserveSync counts a sync by the kind of its object and its result, and records its
// duration.
func ObserveSync(kind, result string, took time.Duration) {
	syncDuration.WithLabelValues(kind).Observe(took.Seconds())
	syncTotal.WithLabelValues(kind, result).Inc()
}

// Serve serves probes from the health, and metrics from the registry, until ctx ends or
// close is called.
func Serve(ctx context.Context, o *Options, health *Health, registry k8smetrics.KubeRegistry) (close func(), err error) {
	closeHealth, err := serving.Listen(ctx, "health-probe-bind-address", o.HealthAddress, serving.Probes(health.Live, health.Ready))
	if err != nil {
		return nil, err
	}
	mux := serving.Metrics(registry)
	if o.Profiling {
		serving.AddProfiles(mux)
	}
	closeMetrics, err := serving.Listen(ctx, "metrics-bind-address", o.MetricsAddress, mux)
	if err != nil {
		closeHealth()
		return nil, err
	}
	return func() {
		closeMetrics()
		closeHealth()
	}, nil
}

// Collectors report Networks and waiting pods from the caches at the time of a scrape.
func Collectors(networks samplelisters.NetworkLister, pods corelisters.PodLister, clock clock.PassiveClock) []k8smetrics.StableCollector {
	return []k8smetrics.StableCollector{&networkCollector{networks: networks}, &podCollector{pods: pods, clock: clock}}
}

// networkCollector reports the status of every Network at the time of a scrape: a Network
// of 65,000 addresses costs as much as one of two.
type networkCollector struct {
	k8smetrics.BaseStableCollector

	networks samplelisters.NetworkLister
}

// The label for the namespace of a Network is not "namespace". A scrape job sets that
// label to the controller's namespace on all series and overwrites this one.
var (
	networkAddresses = k8smetrics.NewDesc("pod2_network_addresses",
		"Addresses of a Network by state: bound, reserved, resting, available. Available is at most 2147483647.",
		[]string{"network_namespace", "network", "state"}, nil, k8smetrics.ALPHA, "")
	networkExhausted = k8smetrics.NewDesc("pod2_network_exhausted",
		"1 while pods wait because the Network has no free address, else 0.",
		[]string{"network_namespace", "network"}, nil, k8smetrics.ALPHA, "")
	networkReady = k8smetrics.NewDesc("pod2_network_ready",
		"1 if the Network can serve; 0 if its spec is wrong, a write was refused, or it is being deleted.",
		[]string{"network_namespace", "network"}, nil, k8smetrics.ALPHA, "")
)

func (c *networkCollector) DescribeWithStability(descs chan<- *k8smetrics.Desc) {
	descs <- networkAddresses
	descs <- networkExhausted
	descs <- networkReady
}

func (c *networkCollector) CollectWithStability(metrics chan<- k8smetrics.Metric) {
	networks, err := c.networks.List(labels.Everything())
	if err != nil { // a cache returns no errors
		return
	}
	gauge := func(desc *k8smetrics.Desc, value float64, labels ...string) {
		metrics <- k8smetrics.NewLazyConstMetric(desc, k8smetrics.GaugeValue, value, labels...)
	}
	for _, n := range networks {
		for _, s := range []struct {
			state string
			count int64
		}{
			{"bound", n.Status.Bound}, {"reserved", n.Status.Reserved}, {"resting", n.Status.Resting}, {"available", n.Status.Available},
		} {
			gauge(networkAddresses, float64(s.count), n.Namespace, n.Name, s.state)
		}
		gauge(networkExhausted, truth(meta.IsStatusConditionFalse(n.Status.Conditions, samplecrdv1.ConditionAddressesAvailable)), n.Namespace, n.Name)
		gauge(networkReady, truth(meta.IsStatusConditionTrue(n.Status.Conditions, samplecrdv1.ConditionReady)), n.Namespace, n.Name)
	}
}

// podCollector reports, for every namespace, the age of the oldest pod that waits for its
// addresses, at the time of a scrape. The histograms only include pods that wait no more.
type podCollector struct {
	k8smetrics.BaseStableCollector

	pods  corelisters.PodLister
	clock clock.PassiveClock
}

var oldestWaitingPod = k8smetrics.NewDesc("pod2_oldest_waiting_pod_seconds",
	"Age of the oldest pod in a namespace that waits for its addresses, for any reason. Absent if no pod waits.",
	[]string{"pod_namespace"}, nil, k8smetrics.ALPHA, "")

func (c *podCollector) DescribeWithStability(descs chan<- *k8smetrics.Desc) {
	descs <- oldestWaitingPod
}

func (c *podCollector) CollectWithStability(metrics chan<- k8smetrics.Metric) {
	pods, err := c.pods.List(labels.Everything())
	if err != nil { // a cache returns no errors
		return
	}
	oldest := map[string]time.Duration{}
	for _, pod := range pods {
		if attachment.Gated(pod) && pod.DeletionTimestamp == nil && !attachment.Over(pod) {
			// Never negative: the API server's clock may be ahead of the controller's.
			oldest[pod.Namespace] = max(oldest[pod.Namespace], c.clock.Since(pod.CreationTimestamp.Time))
		}
	}
	for namespace, age := range oldest {
		metrics <- k8smetrics.NewLazyConstMetric(oldestWaitingPod, k8smetrics.GaugeValue, age.Seconds(), namespace)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
