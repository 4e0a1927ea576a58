package dashboard

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// guard lets only the browser of the user in. Other users of the machine can connect to a loopback port, and each page
// that the user visits can send requests to it.
//
//	request                                              answer
//	a Host that is not this server (DNS rebinding)       403
//	an Origin that is not this server                    403
//	GET /open/TOKEN with the token of the printed URL    sets the cookie, then redirects to /
//	the cookie is missing or wrong                       403
//	a method other than GET                              405
//
// The URL works until the server ends, so a user can open a second browser.
type guard struct {
	host, token, name, secret string
	next                      http.Handler
}

func newGuard(host string, next http.Handler) *guard {
	// All ports of 127.0.0.1 share cookies, so the name is random too.
	// Browsers leave out the port of http.
	return &guard{host: strings.TrimSuffix(host, ":80"), token: rand.Text(), name: "pod2-" + rand.Text()[:8], secret: rand.Text(), next: next}
}

const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": contentSecurityPolicy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	cookie, _ := r.Cookie(g.name)
	switch origin := r.Header.Get("Origin"); {
	case r.Host != g.host:
		http.Error(w, "forbidden: open the URL that kubectl pod2 dashboard printed", http.StatusForbidden)
	case origin != "" && origin != "http://"+g.host:
		http.Error(w, "forbidden: another site sent this request", http.StatusForbidden)
	case r.Method == http.MethodGet && equal(r.URL.Path, "/open/"+g.token):
		http.SetCookie(w, &http.Cookie{Name: g.name, Value: g.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case cookie == nil || !equal(cookie.Value, g.secret):
		http.Error(w, "forbidden: open the URL that kubectl pod2 dashboard printed", http.StatusForbidden)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "the dashboard only reads", http.StatusMethodNotAllowed)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// equal compares in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// listen on a loopback address. Others would show the user's view of the cluster to the network.
func listen(address string) (net.Listener, error) {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--address %s: %w", address, err)
	}
	if !tcp.IP.IsLoopback() {
		return nil, fmt.Errorf("--address %s is not a loopback address: the network must not see your view of the cluster, so write 127.0.0.1:PORT or [::1]:PORT", address)
	}
	l, err := net.ListenTCP("tcp", tcp)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}
