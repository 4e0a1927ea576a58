//go:build linux

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
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // REST client and informer metrics
	"k8s.io/klog/v2"
)

// nowhere is the bind address of a server that is not wanted.
const nowhere = "0"

// healthHandler answers /healthz and /readyz: 200 "ok", or 503 and the error.
func healthHandler(live, ready func() error) http.Handler {
	answer := func(check func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", answer(live))
	mux.Handle("GET /readyz", answer(ready))
	return mux
}

func metricsHandler(own prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", k8smetrics.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, own}, k8smetrics.HandlerOpts{}))
	return mux
}

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
	return func() { _ = server.Close() }, nil
}
