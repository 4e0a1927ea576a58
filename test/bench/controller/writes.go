package main

import (
	"context"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/bench/measure"
)

// methods that write, as HTTP has them.
var methods = []string{"POST", "PUT", "PATCH", "DELETE"}

func controllerMetrics(ctx context.Context, c *measure.Controller) measure.Metrics {
	return measure.ParseMetrics(c.Fetch(ctx, "/metrics"))
}

// requests that a controller made, as its client counts them: by method, and all.
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

// server is what the API server counted.
func (b *bench) server(ctx context.Context) measure.Metrics {
	return measure.ParseMetrics(measure.Must(b.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)))
}

var writing = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// ours is how many writes the API server has counted of the kinds that only our controller
// makes while a Pod2 is at work, with its events; of DELETE those of its own kinds, and none
// of pods, which KWOK deletes, too. Status and binding of pods are the kubelet's and the
// scheduler's.
func (b *bench) ours(ctx context.Context, ns string) float64 {
	count := b.server(ctx).Sum("apiserver_request_total", func(l map[string]string) bool {
		switch l["resource"] {
		case "pods":
			return l["subresource"] == "" && (l["verb"] == "POST" || l["verb"] == "PATCH")
		case "addressblocks", "controllerrevisions", "services", "endpointslices":
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

// counting returns a function that adds to the lap what our controller has written since,
// a pod's share, and how many writes the API server counted others, DELETE aside, which
// our count of it leaves out.
func (b *bench) counting(ctx context.Context, l *lap) func(what string) {
	before, server := requests(ctx, b.controller), b.ours(ctx, l.namespace)
	return func(what string) {
		after, now := requests(ctx, b.controller), b.ours(ctx, l.namespace)
		made := func(kind string) float64 { return after[kind] - before[kind] }
		for _, kind := range append(methods, "writes") {
			l.Add(made(kind)/float64(l.n), what, kind)
		}
		if l.contender.ours() {
			l.unexplained += math.Abs(made("writes") - made("DELETE") - (now - server))
		}
	}
}

// waitSynced waits until the controller's queue has been empty for a while, and returns
// since when.
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

// quiet is longer than any of our writes waits for more of its kind.
const quiet = 1500 * time.Millisecond

// waitQuiet waits until nobody has written for that long, but for what goes on for ever:
// leases and the nodes' status.
func (b *bench) waitQuiet(ctx context.Context) {
	last, since := -1.0, time.Time{}
	measure.Until(ctx, quiet/6, "nobody to write", func() bool {
		now := b.server(ctx).Sum("apiserver_request_total", func(l map[string]string) bool {
			return writing[l["verb"]] && l["resource"] != "leases" && l["resource"] != "nodes"
		})
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	})
}
