package dashboard

import (
	"fmt"
	"net/http"
)

// ReadOnly is a transport that sends only GET requests: get, list and watch. So a mistake in this program cannot change
// the cluster, even if the user may.
func ReadOnly(next http.RoundTripper) http.RoundTripper { return readOnly{next} }

type readOnly struct{ next http.RoundTripper }

func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s: the dashboard only reads", request.Method, request.URL.Path)
	}
	return r.next.RoundTrip(request)
}
