//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// fanout is what it costs the API server to tell many watchers of a change.
type fanout struct {
	watchers, changes int
	without, with     time.Duration // CPU of the API server, for all changes
	bytes             float64       // of one event to one watcher
}

// each event, to each watcher.
func (f fanout) each() time.Duration {
	return max(0, f.with-f.without) / time.Duration(f.watchers*f.changes)
}

// measureFanout changes pods by one annotation that nobody reads, with nobody but the
// agents watching, and with many who watch what they do, each over a connection of its
// own.
func (b *bench) measureFanout(ctx context.Context) error {
	f := &b.results.fanout
	f.watchers, f.changes = b.watchers, b.changes
	pid, err := processOf(b.api.dir, "kube-apiserver")
	if err != nil {
		return err
	}
	if f.without, err = b.change(ctx, pid, "without", nil); err != nil {
		return err
	}
	list, err := b.api.kube.CoreV1().Pods(space).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("list one pod: %w", err)
	}
	watching, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var received atomic.Int64
	for range f.watchers {
		body, err := b.api.watch(watching, list.ResourceVersion)
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer body.Close()
			_, _ = io.Copy(counter{&received}, body)
		})
	}
	time.Sleep(time.Second)
	quiet := received.Load()
	if f.with, err = b.change(ctx, pid, "with", &received); err != nil {
		return err
	}
	f.bytes = float64(received.Load()-quiet) / float64(f.watchers*f.changes)
	b.say("%d changes: %v of the API server's CPU, with %d watchers more %v: %v an event and watcher, %.0f bytes", f.changes, f.without, f.watchers, f.with, f.each(), f.bytes)
	return nil
}

// change pods, and return what the API server computed until nothing more is received.
func (b *bench) change(ctx context.Context, pid int, value string, received *atomic.Int64) (time.Duration, error) {
	before, err := cpuOf(pid)
	if err != nil {
		return 0, err
	}
	err = parallel(b.changes, func(i int) error {
		name := fmt.Sprint("far-", b.published+i%(b.standing-b.published))
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{"bench":%q}}}`, b.api.uid(name), value)
		_, err := b.api.kube.CoreV1().Pods(space).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("change pods: %w", err)
	}
	for last := int64(-1); received != nil && received.Load() != last; {
		last = received.Load()
		time.Sleep(500 * time.Millisecond)
	}
	after, err := cpuOf(pid)
	return after - before, err
}

// watch the pods that an agent watches, on a connection that nobody else uses.
func (a *api) watch(ctx context.Context, resourceVersion string) (io.ReadCloser, error) {
	tls, err := rest.TLSConfigFor(a.config)
	if err != nil {
		return nil, fmt.Errorf("read the certificates of the kubeconfig: %w", err)
	}
	address := fmt.Sprintf("%s/api/v1/pods?watch=1&allowWatchBookmarks=true&labelSelector=%s%%3Dtrue&resourceVersion=%s", a.config.Host, samplecrdv1.ManagedLabel, resourceVersion)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	response, err := (&http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}).RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("watch pods: %s", response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// processOf finds the program that the local cluster in this directory runs.
func processOf(dir, program string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		command, _, _ := bytes.Cut(line, []byte{0})
		if strings.HasPrefix(string(command), dir+"/") && filepath.Base(string(command)) == program {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("no process runs %s from below %s", program, dir)
}
