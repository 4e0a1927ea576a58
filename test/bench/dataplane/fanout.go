//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// measureFanout measures the API server's cost of one change for many watchers. It changes
// an unused annotation of pods, first with only the agents watching. Then many more watchers
// watch the same pods, each over its own connection.
func (b *bench) measureFanout(ctx context.Context) measure.Results {
	server := measure.Find(b.Dir, "kube-apiserver")
	without := b.change(ctx, server, "without", nil)
	list := measure.Must(b.Kube.CoreV1().Pods(space).List(ctx, metav1.ListOptions{Limit: 1}))
	watching, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var received atomic.Int64
	for range b.Watchers {
		body := b.watch(watching, list.ResourceVersion)
		wg.Go(func() {
			defer body.Close()
			_, _ = io.Copy(counter{&received}, body)
		})
	}
	time.Sleep(time.Second)
	quiet := received.Load()
	with := b.change(ctx, server, "with", &received)
	events := float64(b.Watchers * b.Changes)
	r := measure.Results{}
	r.Add(without.Seconds(), "without")
	r.Add(with.Seconds(), "with")
	r.Add(float64(max(0, with-without).Microseconds())/events, "an event, µs")
	r.Add(float64(received.Load()-quiet)/events, "an event, bytes")
	return r
}

// change pods, and return the API server's CPU time until no more bytes arrive.
func (b *bench) change(ctx context.Context, server *measure.Process, value string, received *atomic.Int64) time.Duration {
	before := server.CPU()
	measure.Parallel(b.Changes, func(i int) {
		name := fmt.Sprint("far-", b.published+i%(b.standing-b.published))
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{"bench":%q}}}`, b.uid(name), value)
		measure.Must(b.Kube.CoreV1().Pods(space).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}))
	})
	for last := int64(-1); received != nil && received.Load() != last; {
		last = received.Load()
		time.Sleep(500 * time.Millisecond)
	}
	return server.CPU() - before
}

// watch the pods that an agent watches, on a connection of its own.
func (b *bench) watch(ctx context.Context, resourceVersion string) io.ReadCloser {
	tls := measure.Must(rest.TLSConfigFor(b.Config))
	address := fmt.Sprintf("%s/api/v1/pods?watch=1&allowWatchBookmarks=true&labelSelector=%s%%3Dtrue&resourceVersion=%s", b.Config.Host, samplecrdv1.ManagedLabel, resourceVersion)
	request := measure.Must(http.NewRequestWithContext(ctx, http.MethodGet, address, nil))
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	response, err := (&http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}).RoundTrip(request)
	measure.Check(err)
	if response.StatusCode != http.StatusOK {
		measure.Check(errors.Join(fmt.Errorf("watch pods: %s", response.Status), response.Body.Close()))
	}
	return response.Body
}
