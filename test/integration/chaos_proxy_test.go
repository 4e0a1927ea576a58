//go:build integration && chaos

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// proxy is an unreliable proxy between a controller and the API server.
type proxy struct {
	server     *httptest.Server
	kubeconfig string

	mu      sync.Mutex
	watches map[int]openWatch
	last    int
	dice    *rand.Rand
	// unreliable lets a third of all requests except watches fail, in one of the ways of
	// call.
	unreliable bool
	expired    bool // answers some watches with 410
	faults     map[string]int
	writes     int // number of requested writes
}

type openWatch struct {
	since time.Time
	end   context.CancelFunc
}

func startProxy(t *testing.T, dice *rand.Rand) *proxy {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the connection breaks here as it did to the API server
		},
	}
	p := &proxy{watches: map[int]openWatch{}, dice: dice, faults: map[string]int{}}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "true" {
			p.watch(forward, w, r)
			return
		}
		p.call(forward, w, r)
	}))
	t.Cleanup(p.server.Close)
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: p.server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		CurrentContext: "proxy",
	}, p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *proxy) watch(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p.mu.Lock()
	expired := p.expired && p.dice.IntN(50) == 0
	p.last++
	id := p.last
	p.watches[id] = openWatch{time.Now(), cancel}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.watches, id)
		p.mu.Unlock()
	}()
	if expired {
		answer(w, http.StatusGone, "Expired")
		return
	}
	forward.ServeHTTP(w, r.WithContext(ctx))
}

// cut ends the watches that are older than a second, and returns their number. client-go
// treats shorter watches as a fault: it waits longer and longer, up to 30 s, before the
// next one.
func (p *proxy) cut() (lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, watch := range p.watches {
		if time.Since(watch.since) > 1100*time.Millisecond {
			watch.end()
			delete(p.watches, id)
			lost++
		}
	}
	return lost
}

// call lets a third of the requests fail while the proxy is unreliable:
//
//	429      too many requests; not carried out
//	500      not carried out
//	504      carried out, and the answer reports a timeout
//	broken   the connection breaks, before or after the request is carried out
func (p *proxy) call(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if r.Method != http.MethodGet {
		p.writes++
	}
	fault := ""
	if p.unreliable && p.dice.IntN(3) == 0 {
		fault = []string{"429", "500", "504", "broken before", "broken after"}[p.dice.IntN(5)]
		p.faults[fault]++
	}
	p.mu.Unlock()
	switch fault {
	case "429":
		answer(w, http.StatusTooManyRequests, "TooManyRequests")
	case "500":
		answer(w, http.StatusInternalServerError, "InternalError")
	case "504":
		forward.ServeHTTP(httptest.NewRecorder(), r)
		answer(w, http.StatusGatewayTimeout, "Timeout")
	case "broken before":
		panic(http.ErrAbortHandler)
	case "broken after":
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		forward.ServeHTTP(w, r)
	}
}

// answer writes a metav1.Status.
func answer(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"the proxy says so","code":%d}`, reason, code)
}

func (p *proxy) set(change func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *proxy) counted() (writes int, faults string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes, fmt.Sprint(p.faults)
}

// startBehind is startController with the proxy in front of the API server.
func startBehind(t *testing.T, p *proxy, namespace string) *controller {
	t.Helper()
	if _, err := os.Stat(p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return startController(t, namespace, "--kubeconfig", p.kubeconfig, withMetrics)
}
