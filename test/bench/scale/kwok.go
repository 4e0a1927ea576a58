package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/pod2/pod2/test/bench/measure"
)

// restartKWOK starts KWOK again, behind a proxy. It is called before there are pods.
//
// KWOK asks for all pods whenever its watch ends, which happens every five to ten minutes. The API
// server needs some seconds to tell it 25,000 pods. Meanwhile more events come than it keeps for a
// watch, so it ends the new watch too, and so on: KWOK then plays 25 pods a second instead of 90.
// No kubelet watches the pods of all nodes. Behind the proxy, the watch of pods never ends.
func (b *bench) restartKWOK(ctx context.Context) (stop func()) {
	old := measure.Find(b.Dir, kwok)
	command := measure.Must(old.CmdLine())
	measure.Check(syscall.Kill(old.PID, syscall.SIGKILL))
	leases := b.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for _, lease := range measure.Must(leases.List(ctx, metav1.ListOptions{})).Items { // another KWOK would wait until they end
		measure.Check(leases.Delete(ctx, lease.Name, *metav1.NewPreconditionDeleteOptions(string(lease.UID))))
	}
	server := httptest.NewServer(measure.Must(newProxy(b.Config, b.Kube)))
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "--master="+server.URL)...)
	b.components[kwok] = measure.Start(cmd, filepath.Join(b.Dir, "kwok.log"))
	return func() {
		b.components[kwok].Stop()
		server.CloseClientConnections()
		server.Close()
	}
}

// newProxy forwards requests to an API server with the rights of a config, except a watch of pods
// that begins before there are pods.
func newProxy(config *rest.Config, kube kubernetes.Interface) (http.Handler, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	forward := httputil.NewSingleHostReverseProxy(server)
	forward.FlushInterval = -1
	if forward.Transport, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/pods" && r.URL.Query().Has("watch") {
			first, err := kube.CoreV1().Pods("").List(r.Context(), metav1.ListOptions{Limit: 1})
			if err == nil && len(first.Items) == 0 {
				tellPods(w, r, kube, first.ResourceVersion)
				return
			}
		}
		forward.ServeHTTP(w, r)
	}), nil
}

// tellPods answers a watch of pods from a version on. When the API server ends its own watch, it
// begins another where that one ended.
func tellPods(w http.ResponseWriter, r *http.Request, kube kubernetes.Interface, version string) {
	pods, selector := kube.CoreV1().Pods(""), r.URL.Query().Get("fieldSelector")
	events, err := watchtools.NewRetryWatcherWithContext(r.Context(), version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return pods.Watch(ctx, options)
		},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer events.Stop()
	w.Header().Set("Content-Type", "application/json")
	send := json.NewEncoder(w)
	flush := http.NewResponseController(w).Flush
	for err := flush(); err == nil; err = flush() {
		event := <-events.ResultChan()
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return // the version is too old: the client must ask again
		}
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		if send.Encode(metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Object: pod}}) != nil {
			return
		}
	}
}
