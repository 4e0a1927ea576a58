package reconcile

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pod2/pod2/test/apiserver"
)

// render writes a call with its preconditions:
//
//	create pods web-0
//	patch networks/status blue uid=uid-of-blue rv=101
//	patch pods web-0 uid=uid-of-web-0 rv=102
//	delete addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=103
//	list pods limit=500
func render(c *apiserver.Call) string {
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "get"}[c.Method]
	words := []string{verb, strings.TrimSuffix(c.Resource.Resource+"/"+c.Sub, "/"), c.Name}
	with := func(key, value string) {
		if value != "" {
			words = append(words, key+"="+value)
		}
	}
	switch {
	case c.Method == http.MethodPost:
		if obj, err := c.Decode(); err == nil {
			words[2] = obj.GetName()
		}
	case c.Method == http.MethodPatch, c.Method == http.MethodDelete:
		uid, version, _ := c.Preconditions()
		with("uid", uid)
		with("rv", version)
		if options, err := c.DeleteOptions(); c.Method == http.MethodDelete && err == nil && options.PropagationPolicy != nil {
			with("propagation", string(*options.PropagationPolicy))
		}
	case c.Name == "":
		words[0] = "list"
		with("limit", c.Query.Get("limit"))
		with("continue", c.Query.Get("continue"))
		with("rv", c.Query.Get("resourceVersion"))
		with("selector", c.Query.Get("labelSelector")+c.Query.Get("fieldSelector"))
	default: // a quorum read has no rv
		with("rv", c.Query.Get("resourceVersion"))
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// onlyWrites returns the calls that are neither reads nor events.
func onlyWrites(calls string) string {
	var lines []string
	for line := range strings.Lines(calls) {
		if !strings.HasPrefix(line, "get ") && !strings.HasPrefix(line, "list ") && !strings.HasPrefix(line, "event ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// withoutEvents returns the calls without events.
func withoutEvents(calls string) string {
	var lines []string
	for line := range strings.Lines(calls) {
		if !strings.HasPrefix(line, "event ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// same compares rendered texts.
func same(t *testing.T, got, want string) {
	t.Helper()
	if got, want := strings.TrimSpace(got), strings.TrimSpace(want); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// refusing answers calls with this prefix with an error; "" refuses none.
func refusing(prefix string, err error) func(string) error {
	return func(call string) error {
		if prefix != "" && strings.HasPrefix(call, prefix) {
			return err
		}
		return nil
	}
}

// says compares an error with the answer to a call, by value: the wire makes a copy.
func says(err, answer error) bool {
	return err != nil && strings.Contains(err.Error(), answer.Error())
}

func deepCopy(objects []runtime.Object) []runtime.Object {
	copies := make([]runtime.Object, 0, len(objects))
	for _, obj := range objects {
		copies = append(copies, obj.DeepCopyObject())
	}
	return copies
}
