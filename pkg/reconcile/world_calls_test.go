package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pod2/pod2/test/apiserver"
)

// RoundTrip lets the server answer a call, and records it.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := apiserver.ReadCall("controller", r)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	call := render(c)
	if why := ignored(c); why != "" {
		w.t.Errorf("%s: %s: %s", call, why, c.Body)
	}
	response, _, err := w.server.Answer(c)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		call += " -> " + reason(response)
	}
	w.calls = append(w.calls, call)
	return response, err
}

// ignored reports the parts of a write that an API server would silently ignore or lose.
// It takes a status only through the subresource, and an update deletes fields that our
// types do not know.
func ignored(c *apiserver.Call) string {
	if c.Method == http.MethodPut {
		return "an update deletes the fields that our types do not know: patch"
	}
	var operations []struct{ Path string }
	if err := json.Unmarshal(c.Body, &operations); err == nil && slices.ContainsFunc(operations, func(o struct{ Path string }) bool { return strings.HasPrefix(o.Path, "/status") }) {
		return "a status is written apart"
	}
	var body map[string]any
	if err := json.Unmarshal(c.Body, &body); c.Method != http.MethodPatch || err != nil {
		return ""
	}
	if _, status := body["status"]; status != (c.Sub == "status") || status && len(body) != 2 {
		return "a status is written apart"
	}
	return ""
}

// reason returns the server's reason to refuse a call, from its answer, which can still
// be read; "" if the connection broke.
func reason(response *http.Response) string {
	if response == nil {
		return ""
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		panic(err)
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	var status metav1.Status
	if err := json.Unmarshal(text, &status); err != nil {
		panic(err)
	}
	return string(status.Reason)
}

// recorder records events among the calls.
type recorder struct{ w *world }

func (r recorder) Event(on runtime.Object, kind, reason, message string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.calls = append(r.w.calls, fmt.Sprintf("event on %s: %s %s: %s", object(on).GetName(), kind, reason, message))
}

func (r recorder) Eventf(on runtime.Object, kind, reason, format string, args ...any) {
	r.Event(on, kind, reason, fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(on runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Event(on, kind, reason, fmt.Sprintf(format, args...))
}
