// Package serving serves HTTP for our processes: metrics, probes, profiles.
package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // REST client, informer, work queue and leader election metrics
	"k8s.io/klog/v2"
)

// Nowhere is the bind address of a server that is disabled.
const Nowhere = "0"

// CheckAddress returns an error if a bind address is invalid, and says which ones are valid.
func CheckAddress(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil && address != Nowhere {
		return errors.New("must be host:port, :port, or 0 to disable")
	}
	return nil
}

// Listen serves HTTP on the address from the flag until close is called.
func Listen(ctx context.Context, flag, address string, handler http.Handler) (close func(), err error) {
	if address == Nowhere {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for --%s=%s: %w; choose another address, or 0 to disable", flag, address, err)
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

// Metrics serves /metrics with the metrics of all libraries and with own.
func Metrics(own prometheus.Gatherer) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", k8smetrics.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, own}, k8smetrics.HandlerOpts{}))
	return mux
}

// AddProfiles also serves /debug/pprof/, like net/http/pprof. Anyone who reaches it can
// make this process use CPU for as long as they ask, and can read names in its memory.
func AddProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// Probes serves /healthz with live and /readyz with ready: 200 "ok", or 503 and the
// error. A failing /healthz restarts the process, so live may only report problems that a
// restart fixes.
func Probes(live, ready func() error) http.Handler {
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
