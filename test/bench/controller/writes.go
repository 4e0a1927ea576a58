package main

import (
	"context"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/bench/measure"
)

// methods of HTTP that write.
var methods = []string{"POST", "PUT", "PATCH", "DELETE"}

func controllerMetrics(ctx context.Context, c *measure.Controller) measure.Metrics {
	return measure.ParseMetrics(c.Fetch(ctx, "/metrics"))
}

// requests of a controller, as its client counts them: by method, and all.
func requests(ctx context.Context, c *measure.Controller) map[string]float64 {
	m := controllerMetrics(ctx, c)
	made := map[string]float64{}
	for _, method := range methods {
		made[method] = m.Sum("rest_client_requests_total", func(labels map[string]string) bool { return labels["method"] == method })
		made["writes"] += made[method]
	}
	made["all"] = m.Sum("rest_client_requests_total", nil)
	return made
}

// server returns the metrics of the API server.
func (b *bench) server(ctx context.Context) measure.Metrics {
	return measure.ParseMetrics(measure.Must(b.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)))
}

var writing = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// The API server's count of the writes that only the Pod2 controller makes for a Pod2, with
// its events. It includes deletions of the controller's own kinds, but not of pods,
// because KWOK deletes pods too. The kubelet and the scheduler write status and binding.
func (b *bench) ours(ctx context.Context, ns string) float64 {
	count := b.server(ctx).Sum("apiserver_request_total", func(l map[string]string) bool {
		switch l["resource"] {
		case "pods":
			return l["subresource"] == "" && (l["verb"] == "POST" || l["verb"] == "PATCH")
		case "addressblocks", "addressslices", "addresshistories", "controllerrevisions", "services", "endpointslices":
			return writing[l["verb"]]
		case "networks", "pod2s":
			return writing[l["verb"]] && l["subresource"] == "status"
		}
		return false
	})
	for _, e := range measure.Must(b.Kube.CoreV1().Events(ns).List(ctx, metav1.ListOptions{})).Items {
		if e.Source.Component == "pod2-controller" {
			count += float64(e.Count)
		}
	}
	return count
}

// counting returns a function that adds the controller's writes since now to the lap, for
// each pod, without those of AddressHistories, which come later. It also adds the difference between the client's and the API server's counts.
// That difference leaves out DELETE, of which the API server's count has only a part.
func (b *bench) counting(ctx context.Context, l *lap) func(what string) {
	before, server, history := requests(ctx, b.controller), b.ours(ctx, l.namespace), b.historyWrites(ctx)
	return func(what string) {
		after, now := requests(ctx, b.controller), b.ours(ctx, l.namespace)
		made := func(kind string) float64 { return after[kind] - before[kind] }
		for _, kind := range methods {
			l.Add(made(kind)/float64(l.n), what, kind)
		}
		l.Add((made("writes")-b.historyWrites(ctx)+history)/float64(l.n), what, "writes")
		if l.contender.ours() {
			l.unexplained += math.Abs(made("writes") - made("DELETE") - (now - server))
		}
	}
}

// waitSynced waits until the controller's queue has been empty for a while, and returns the
// time since when.
func waitSynced(ctx context.Context, c *measure.Controller) (at time.Time) {
	last := -1.0
	measure.Until(ctx, 50*time.Millisecond, "the controller's queue to be empty", func() bool {
		m := controllerMetrics(ctx, c)
		ours := func(labels map[string]string) bool { return labels["name"] == "pod2" }
		done := m.Sum("pod2_sync_total", nil)
		if busy := m.Sum("workqueue_depth", ours) + m.Sum("workqueue_unfinished_work_seconds", ours); busy > 0 || done != last {
			at, last = time.Now(), done
			return false
		}
		return time.Since(at) > 500*time.Millisecond
	})
	return at
}

// quiet is longer than any delay with which the Pod2 controller collects writes.
const quiet = 1500 * time.Millisecond

// waitQuiet waits until there was no write for that long, except writes that never end:
// leases and the status of nodes.
func (b *bench) waitQuiet(ctx context.Context) {
	last, since := -1.0, time.Time{}
	measure.Until(ctx, quiet/6, "the end of all writes", func() bool {
		now := b.server(ctx).Sum("apiserver_request_total", func(l map[string]string) bool {
			return writing[l["verb"]] && l["resource"] != "leases" && l["resource"] != "nodes"
		})
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	})
}
