package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

type families map[string]*dto.MetricFamily

func get(ctx context.Context, url string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	if read == nil {
		return nil
	}
	return read(response.Body)
}

func parse(r io.Reader) (families, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(r)
}

func scrape(ctx context.Context, url string) (m families, err error) {
	err = get(ctx, url, func(r io.Reader) (err error) {
		m, err = parse(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	return m, nil
}

// sum adds up the samples of a counter or gauge that match.
func (m families) sum(name string, match func(labels map[string]string) bool) (total float64) {
	for _, sample := range m[name].GetMetric() {
		labels := map[string]string{}
		for _, l := range sample.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if match == nil || match(labels) {
			total += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
		}
	}
	return total
}

// writes of our controller, by verb as HTTP has it.
type writes struct{ post, put, patch, delete float64 }

func (w writes) total() float64 { return w.post + w.put + w.patch + w.delete }

func (w writes) minus(v writes) writes {
	return writes{w.post - v.post, w.put - v.put, w.patch - v.patch, w.delete - v.delete}
}

func (p *process) writes(ctx context.Context) (writes, error) {
	m, err := scrape(ctx, p.metricsURL)
	if err != nil {
		return writes{}, err
	}
	by := func(method string) float64 {
		return m.sum("rest_client_requests_total", func(labels map[string]string) bool { return labels["method"] == method })
	}
	return writes{by("POST"), by("PUT"), by("PATCH"), by("DELETE")}, nil
}

// calls are all requests that it made.
func (p *process) calls(ctx context.Context) (float64, error) {
	m, err := scrape(ctx, p.metricsURL)
	return m.sum("rest_client_requests_total", nil), err
}

// waitSynced waits until its queue has been empty for a while.
func (p *process) waitSynced(ctx context.Context) (at time.Time, err error) {
	last := -1.0
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		m, err := scrape(ctx, p.metricsURL)
		if err != nil {
			return false, err
		}
		ours := func(labels map[string]string) bool { return labels["name"] == "pod2" }
		done := m.sum("pod2_sync_total", nil)
		if busy := m.sum("workqueue_depth", ours) + m.sum("workqueue_unfinished_work_seconds", ours); busy > 0 || done != last {
			at, last = time.Now(), done
			return false, nil
		}
		return time.Since(at) > 500*time.Millisecond, nil
	})
	if err != nil {
		return at, fmt.Errorf("wait for the controller's queue to be empty: %w", err)
	}
	return at, nil
}

// server is what the API server counted of requests that write.
func (b *bench) server(ctx context.Context) (families, error) {
	stream, err := b.kube.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	defer stream.Close()
	m, err := parse(stream)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	return m, nil
}

var writing = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// written counts writes but for those that go on for ever: leases and the nodes' status.
func written(m families) float64 {
	return m.sum("apiserver_request_total", func(l map[string]string) bool {
		return writing[l["verb"]] && l["resource"] != "leases" && l["resource"] != "nodes"
	})
}

// oursOnServer counts writes that only our controller makes while a Pod2 is at work. Status
// and binding of pods are the kubelet's and the scheduler's.
func oursOnServer(m families) float64 {
	return m.sum("apiserver_request_total", func(l map[string]string) bool {
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
}

// ours is how many writes the API server has counted of the kinds that only our controller
// makes while a Pod2 is at work, with its events; of DELETE those of its own kinds, and none
// of pods, which KWOK deletes, too.
func (b *bench) ours(ctx context.Context, ns string) (float64, error) {
	m, err := b.server(ctx)
	if err != nil {
		return 0, err
	}
	events, err := b.kube.CoreV1().Events(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list the events of %s: %w", ns, err)
	}
	count := oursOnServer(m)
	for _, e := range events.Items {
		if e.Source.Component == "pod2-controller" {
			count += float64(e.Count)
		}
	}
	return count, nil
}

// counting returns a function that returns what our controller has written since the last
// call, and adds to the lap's unexplained by how many the API server counted others, DELETE
// aside, which our count leaves out.
func (b *bench) counting(ctx context.Context, c contender, ns string, l *lap) (func() (writes, error), error) {
	read := func() (w writes, server float64, err error) {
		if w, err = b.controller.writes(ctx); err == nil {
			server, err = b.ours(ctx, ns)
		}
		return w, server, err
	}
	before, server, err := read()
	return func() (writes, error) {
		after, now, err := read()
		made := after.minus(before)
		if c.ours {
			l.unexplained += math.Abs(made.total() - made.delete - (now - server))
		}
		before, server = after, now
		return made, err
	}, err
}

// quiet is longer than any of our writes waits for more of its kind.
const quiet = 1500 * time.Millisecond

// waitQuiet waits until nobody has written for that long.
func (b *bench) waitQuiet(ctx context.Context) error {
	last, since := -1.0, time.Time{}
	err := wait.PollUntilContextTimeout(ctx, quiet/6, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		m, err := b.server(ctx)
		if err != nil {
			return false, err
		}
		if now := written(m); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet, nil
	})
	if err != nil {
		return fmt.Errorf("wait until nobody writes: %w", err)
	}
	return nil
}
