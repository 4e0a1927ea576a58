package main

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// methods of HTTP that write.
var methods = []string{"POST", "PUT", "PATCH", "DELETE"}

// requests of a controller, as its client counts them: by method, and all.
func requests(ctx context.Context, c *measure.Controller) map[string]float64 {
	m := c.Metrics(ctx)
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

// verbs of the audit log, by the method of HTTP.
var verbs = map[string][]string{"POST": {"create"}, "PUT": {"update"}, "PATCH": {"patch"}, "DELETE": {"delete", "deletecollection"}}

// countWrites returns a function that returns the writes of these users since now, without those
// of AddressHistories.
func (b *bench) countWrites(users ...string) func() measure.Writes {
	b.Audit.Read()
	return func() measure.Writes {
		writes := b.Audit.Read()
		maps.DeleteFunc(writes, func(w measure.Write, _ int) bool { return !slices.Contains(users, w.User) || w.Resource == histories })
		return writes
	}
}

// counting returns a function that adds the writes of the contender's controllers since now to
// the lap. It also adds the difference between the API server's count of the Pod2 controller's
// writes and the controller's own.
func (b *bench) counting(ctx context.Context, l *lap) func(what string) {
	b.Audit.Read()
	before := requests(ctx, b.controller)
	return func(what string) {
		writes, after := b.Audit.Read(), requests(ctx, b.controller)
		l.addWrites(writes, what)
		ours := writes.Sum(func(w measure.Write) bool { return w.User == pod2User })
		l.unexplained += math.Abs(after["writes"] - before["writes"] - float64(ours))
	}
}

// addWrites adds the writes of the contender's controllers for each pod, without those of
// AddressHistories, which come later.
func (l *lap) addWrites(writes measure.Writes, what string) {
	users := l.contender.users
	if len(users) == 0 {
		return
	}
	all := 0
	for _, method := range methods {
		made := writes.Sum(func(w measure.Write) bool {
			return slices.Contains(users, w.User) && slices.Contains(verbs[method], w.Verb) && w.Resource != histories
		})
		l.Add(float64(made)/float64(l.n), what, method)
		all += made
	}
	l.Add(float64(all)/float64(l.n), what, "writes")
	// The protocol of addresses writes pods and AddressBlocks. Slices, status and names are extra.
	for part, resources := range map[string][]string{"protocol": {"pods", "addressblocks"}, "slices": {"addressslices"}} {
		made := writes.Sum(func(w measure.Write) bool {
			return slices.Contains(users, w.User) && slices.Contains(resources, w.Resource)
		})
		l.Add(float64(made)/float64(l.n), what, part)
	}
}

// quiet is longer than the Pod2 controller waits with writes of a status and of names.
const quiet = 1500 * time.Millisecond

// waitFreed waits until the AddressBlocks of a namespace hold no address for a pod. The controller
// frees addresses of terminated pods up to five seconds late.
func (b *bench) waitFreed(ctx context.Context, ns string) {
	measure.Until(ctx, quiet/6, "the release of all addresses", func() bool {
		blocks := measure.Must(b.Sample.SamplecrdV1().AddressBlocks(ns).List(ctx, metav1.ListOptions{})).Items
		return !slices.ContainsFunc(blocks, func(block samplecrdv1.AddressBlock) bool {
			return slices.ContainsFunc(block.Spec.Entries, func(e samplecrdv1.AddressEntry) bool { return e.State == samplecrdv1.AddressBound })
		})
	})
}

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
