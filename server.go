package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // work queue, REST client, informer and leader election metrics
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/pkg/reconcile"
)

var (
	syncTotal = k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
		Name:           "pod2_sync_total",
		Help:           "Syncs by the kind of their object and by how they ended: success, retry (a conflict, or a cache that lags), error, panic, cancelled.",
		StabilityLevel: k8smetrics.ALPHA,
	}, []string{"kind", "result"})

	syncDuration = k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Name:           "pod2_sync_duration_seconds",
		Help:           "How long a sync took, by the kind of its object.",
		Buckets:        k8smetrics.ExponentialBuckets(0.0001, 4, 10), // 0.1 ms (nothing to do) to 26 s
		StabilityLevel: k8smetrics.ALPHA,
	}, []string{"kind"})
)

func init() {
	legacyregistry.MustRegister(syncTotal, syncDuration)
	// From 0 on: PromQL's increase takes no notice of the value that a series begins
	// with, which would be that of the first panic.
	for _, kind := range reconcile.Kinds() {
		for _, result := range []string{"success", "retry", "error", "panic", "cancelled"} {
			syncTotal.WithLabelValues(kind, result)
		}
	}
}

func metricsHandler(own prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", k8smetrics.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, own}, k8smetrics.HandlerOpts{}))
	return mux
}

// nowhere is the bind address of a server that is not wanted.
const nowhere = "0"

// serve answers HTTP on the address that flag gave, until close is called.
func serve(ctx context.Context, flag, address string, handler http.Handler) (close func(), err error) {
	if address == nowhere {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for --%s=%s: %w; choose another address, or 0 for none", flag, address, err)
	}
	logger := klog.FromContext(ctx)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error(err, "HTTP server ended", "flag", flag)
		}
	}()
	logger.Info("Listening", "flag", flag, "address", listener.Addr().String())
	return func() { _ = server.Close() }, nil
}
