package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const host = "127.0.0.1:12345"

// answer of a guarded server to a request that a change makes from a good one.
func answer(t *testing.T, g *guard, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Host = host
	r.AddCookie(&http.Cookie{Name: g.name, Value: g.secret})
	change(r)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func TestGuard(t *testing.T) {
	g := newGuard(host, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	cookie := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Cookie", name+"="+value) }
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	none := func(r *http.Request) { r.Header.Del("Cookie") }
	for name, row := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"the user's browser":     {func(*http.Request) {}, http.StatusOK},
		"its own Origin":         {header("Origin", "http://"+host), http.StatusOK},
		"another Origin":         {header("Origin", "http://evil.example"), http.StatusForbidden},
		"an opaque Origin":       {header("Origin", "null"), http.StatusForbidden},
		"DNS rebinding":          {func(r *http.Request) { r.Host = "evil.example:12345" }, http.StatusForbidden},
		"localhost":              {func(r *http.Request) { r.Host = "localhost:12345" }, http.StatusForbidden},
		"no cookie":              {none, http.StatusForbidden},
		"a wrong cookie":         {cookie(g.name, "x"), http.StatusForbidden},
		"the cookie of a server": {cookie("pod2-OTHER", g.secret), http.StatusForbidden},
		"POST":                   {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"HEAD":                   {func(r *http.Request) { r.Method = http.MethodHead }, http.StatusMethodNotAllowed},
		"POST without a cookie":  {func(r *http.Request) { none(r); r.Method = http.MethodPost }, http.StatusForbidden},
		"the printed URL":        {func(r *http.Request) { none(r); r.URL.Path = "/open/" + g.token }, http.StatusSeeOther},
		"a wrong token":          {func(r *http.Request) { none(r); r.URL.Path = "/open/x" }, http.StatusForbidden},
		"rebinding and token":    {func(r *http.Request) { r.Host = "evil.example"; r.URL.Path = "/open/" + g.token }, http.StatusForbidden},
	} {
		got := answer(t, g, row.change)
		if got.Code != row.want {
			t.Errorf("%s: got %d, want %d", name, got.Code, row.want)
		}
		if policy := got.Header().Get("Content-Security-Policy"); policy == "" || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: Content-Security-Policy: %q", name, policy)
		}
	}
}

// Browsers send no port if it is that of http.
func TestPort80(t *testing.T) {
	for listening, sent := range map[string]string{"127.0.0.1:80": "127.0.0.1", "[::1]:80": "[::1]", "127.0.0.1:8080": "127.0.0.1:8080"} {
		g := newGuard(listening, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		got := answer(t, g, func(r *http.Request) {
			r.Host = sent
			r.Header.Set("Origin", "http://"+sent)
		})
		if got.Code != http.StatusOK {
			t.Errorf("%s: Host %s gets %d", listening, sent, got.Code)
		}
	}
}

func TestCookie(t *testing.T) {
	g := newGuard(host, http.NotFoundHandler())
	got := answer(t, g, func(r *http.Request) { r.URL.Path = "/open/" + g.token }).Header().Get("Set-Cookie")
	if want := g.name + "=" + g.secret + "; Path=/; HttpOnly; SameSite=Strict"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOnlyLoopback(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:0": true, "[::1]:0": true, "0.0.0.0:0": false, ":0": false, "192.0.2.1:0": false, "[::]:0": false} {
		l, err := listen(address)
		if (err == nil) != ok && !strings.Contains(address, "::1") { // a machine without IPv6 has no ::1
			t.Errorf("%s: %v", address, err)
		}
		if l != nil {
			_ = l.Close()
		}
	}
}

func TestReadOnly(t *testing.T) {
	sent := 0
	transport := ReadOnly(roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), method, "/x", nil))
		if (err == nil) != (method == http.MethodGet) {
			t.Errorf("%s: %v", method, err)
		}
		if response != nil {
			_ = response.Body.Close()
		}
	}
	if sent != 1 {
		t.Errorf("%d requests were sent", sent)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
