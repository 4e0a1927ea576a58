package serving

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	k8smetrics "k8s.io/component-base/metrics"
)

func TestProbes(t *testing.T) {
	handler := Probes(func() error { return nil }, func() error { return errors.New("waiting for the caches") })
	for _, test := range []struct {
		path, body string
		code       int
	}{
		{"/healthz", "ok\n", http.StatusOK},
		{"/readyz", "waiting for the caches\n", http.StatusServiceUnavailable},
		{"/metrics", "404 page not found\n", http.StatusNotFound},
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, test.path, nil))
		if answer.Code != test.code || answer.Body.String() != test.body {
			t.Errorf("GET %s: %d %q, want %d %q", test.path, answer.Code, answer.Body.String(), test.code, test.body)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	_, err = Listen(t.Context(), "metrics-bind-address", address, nil)
	want := "listen for --metrics-bind-address=" + address + ": listen tcp " + address + ": bind: address already in use; choose another address, or 0 to disable"
	if err == nil || err.Error() != want {
		t.Errorf("listen on an address in use: %v\nwant: %s", err, want)
	}
}

// Profiles need a flag: they cost CPU and reveal data.
func TestProfilesAreAnsweredWhenAdded(t *testing.T) {
	answers := func(mux *http.ServeMux) int {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/pprof/heap?gc=1", nil))
		return answer.Code
	}
	mux := Metrics(k8smetrics.NewKubeRegistry())
	before := answers(mux)
	AddProfiles(mux)
	if after := answers(mux); before != http.StatusNotFound || after != http.StatusOK {
		t.Errorf("GET /debug/pprof/heap: %d, and with profiles %d", before, after)
	}
}
