//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pod2/pod2/test/apiserver"
)

// peer is one of the two servers, with its answers.
type peer struct {
	name    string
	client  *http.Client
	host    string
	objects map[string]map[string]any
	before  map[string]string
	waited  time.Duration
	names   *strings.Replacer // {ns} and {class}
	bind    func(claim string)
}

func newPeer(t *testing.T, name string, c *rest.Config) *peer {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	return &peer{name: name, client: client, host: strings.TrimSuffix(c.Host, "/"), objects: map[string]map[string]any{}, before: map[string]string{}}
}

// directory returns the path of a resource, before the names.
func directory(resource, namespace string) string {
	r, path := apiserver.ResourceNamed(resource), "api/v1/"
	if r.Group != "" {
		path = "apis/" + r.GroupVersion().String() + "/"
	}
	if r.Namespace() == "" {
		return path
	}
	return path + "namespaces/" + namespace + "/"
}

func metadataOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata
}

var placeholder = regexp.MustCompile(`\{(uid|rv|old):([a-z0-9.-]+)\}`)

func (p *peer) fill(t *testing.T, text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		parts := placeholder.FindStringSubmatch(m)
		object, known := p.objects[parts[2]]
		if !known {
			t.Fatalf("%s: no answer is stored under the name %s", p.name, parts[2])
		}
		switch parts[1] {
		case "uid":
			return metadataOf(object)["uid"].(string)
		case "old":
			return p.before[parts[2]]
		}
		return metadataOf(object)["resourceVersion"].(string)
	})
}

// exchange returns the text that must be equal, and the object. One server's object may
// have more fields than the other's.
func (p *peer) exchange(t *testing.T, ns string, x exchange) (text string, object any) {
	t.Helper()
	verb, path, _ := strings.Cut(x.what, " ")
	resource, rest, _ := strings.Cut(path, "/")
	if x.bound {
		p.bind(rest)
	}
	url := p.host + "/" + directory(resource, ns) + strings.TrimSuffix(resource+"/"+rest, "/")
	body := p.names.Replace(p.fill(t, x.body))
	if x.from != "" {
		body = string(overlay(t, p.objects[x.from], body))
	}
	method := verb
	query := p.fill(t, x.query)
	if verb == "WATCH" {
		method, query = http.MethodGet, "watch=true&"+query
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url+"?"+query, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if x.contentType != "" {
		request.Header.Set("Content-Type", x.contentType)
	}
	response, err := p.client.Do(request)
	if err != nil {
		t.Fatalf("%s: %s: %v", p.name, x.name(), err)
	}
	defer func() { _ = response.Body.Close() }()
	if verb == "WATCH" && response.StatusCode != http.StatusOK { // the CRD is established, but not yet served
		answer, _ := io.ReadAll(response.Body)
		if strings.Contains(string(answer), "unless the WatchList feature gate is enabled") {
			t.Skipf("%s: Kubernetes 1.33 streams no lists by default", x.name())
		}
		if p.waited += time.Second; p.waited > patience {
			t.Fatalf("%s: %s: still %s: %s", p.name, x.name(), response.Status, answer)
		}
		time.Sleep(time.Second)
		return p.exchange(t, ns, x)
	}
	if verb == "WATCH" {
		return p.watched(t, response.Body), nil
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatalf("%s: %s: %v: %s", p.name, x.name(), err, answer)
	}
	text = fmt.Sprintf("%d", response.StatusCode)
	if response.StatusCode >= 300 {
		return text + " " + answered(got), nil
	}
	metadata := metadataOf(got)
	if rv, ok := metadata["resourceVersion"].(string); ok && metadata["uid"] != nil {
		name := x.as
		if name == "" {
			name = metadata["name"].(string)
		}
		if last := p.objects[name]; last != nil {
			old := metadataOf(last)["resourceVersion"].(string)
			text += fmt.Sprintf(", changed: %v", old != rv)
			p.before[name] = old
		}
		p.objects[name] = got
	}
	if verb == "DELETE" {
		deletion := metadata["deletionTimestamp"] != nil && metadata["deletionGracePeriodSeconds"] != float64(0)
		return fmt.Sprintf("%d, terminating: %v", response.StatusCode, deletion), nil
	}
	return text, p.normal(got)
}

// watched reads events until one of these: the bookmark after the first list, an error, or
// the event of the object named "last".
func (p *peer) watched(t *testing.T, body io.Reader) string {
	t.Helper()
	var lines []string
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event struct {
			Type   string         `json:"type"`
			Object map[string]any `json:"object"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		metadata := metadataOf(event.Object)
		switch event.Type {
		case "ERROR":
			return strings.Join(append(lines, fmt.Sprintf("ERROR %v %v", event.Object["code"], event.Object["reason"])), "\n")
		case "BOOKMARK":
			annotations, _ := metadata["annotations"].(map[string]any)
			return strings.Join(append(lines, fmt.Sprintf("BOOKMARK %v", annotations["k8s.io/initial-events-end"])), "\n")
		}
		lines = append(lines, fmt.Sprintf("%s %v", event.Type, metadata["name"]))
		if metadata["name"] == "last" {
			break
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, " last") }) {
		t.Errorf("%s: the watch ended: %v", p.name, scanner.Err())
	}
	return strings.Join(lines, "\n")
}

func overlay(t *testing.T, object map[string]any, patch string) []byte {
	t.Helper()
	text, _ := json.Marshal(object)
	var copied, changes any
	_ = json.Unmarshal(text, &copied)
	if err := json.Unmarshal([]byte(patch), &changes); err != nil {
		t.Fatalf("%v: %s", err, patch)
	}
	out, _ := json.Marshal(laidOver(copied, changes))
	return out
}

func laidOver(a, b any) any {
	changes, ok := b.(map[string]any)
	object, is := a.(map[string]any)
	if !ok || !is {
		return b
	}
	for name, value := range changes {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = laidOver(object[name], value)
		}
	}
	return object
}
