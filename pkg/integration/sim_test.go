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
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pod2/pod2/pkg/sim"
)

// The API server in memory answers each request as the real one does: the same
// status code and reason, an object of which it has no field otherwise, and a new
// resourceVersion when there is one. Every kind of request that the controller makes
// in the scenarios of pkg/sim is among them.
func TestSimulatedServerIsLikeTheRealOne(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	server := sim.NewServer()
	both := []*peer{newPeer(t, "real", config), newPeer(t, "simulated", server.Config("test"))}
	storage := class(t, ns, true)
	for _, p := range both {
		p.names = strings.NewReplacer("{ns}", ns, "{class}", storage)
	}
	both[0].bind = func(claim string) {
		provision(t, ns)
		eventually(t, "claim "+claim+" is bound", func(ctx context.Context) (string, error) {
			c, err := kube.CoreV1().PersistentVolumeClaims(ns).Get(ctx, claim, metav1.GetOptions{})
			if err != nil || c.Status.Phase == corev1.ClaimBound {
				return "", err
			}
			return "it is " + string(c.Status.Phase), nil
		})
	}
	simulated := kubernetes.NewForConfigOrDie(server.Config("storage"))
	both[1].bind = func(claim string) {
		body := `{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`
		if _, err := simulated.CoreV1().PersistentVolumeClaims(ns).Patch(t.Context(), claim, types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	covered := map[string]bool{}
	var all []exchange // before the garbage collector of the one has something to do
	for _, kind := range sim.Kinds {
		if strings.HasPrefix(kind, "WATCH") {
			query := "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
			if strings.HasSuffix(kind, "storageclasses") { // which other tests have too
				query += "&fieldSelector=metadata.name%3Dnone"
			}
			all = append(all, exchange{what: kind, query: query})
		}
	}
	all = append(all, exchanges...)
	for _, x := range all {
		if x.compact {
			server.Compact()
		}
		var answers []string
		var objects []any
		for _, p := range both {
			text, object := p.exchange(t, ns, x)
			answers, objects = append(answers, text), append(objects, object)
		}
		if answers[0] != answers[1] {
			t.Errorf("%s:\nthe real server:\n%s\nthe simulated one:\n%s", x.name(), answers[0], answers[1])
		} else if why := lacks("", objects[1], objects[0]); why != "" {
			t.Errorf("%s: the simulated server has, and the real one has not: %s", x.name(), why)
		}
		covered[x.kind()] = true
	}
	for _, kind := range slices.Concat(sim.Kinds, sim.FaultKinds) {
		if !covered[kind] {
			t.Errorf("no exchange is a %s, which the controller asks for", kind)
		}
	}
	t.Logf("%d exchanges of %d kinds", len(all), len(covered))
}

// exchange is a request. In path and body, {uid:x} and {rv:x} are the UID and the
// resourceVersion that the server gave to what it answered to the exchange before
// that was named x, and {old:x} is the resourceVersion before the last.
type exchange struct {
	what        string // "PATCH pods/web-0/status", as names without a namespace
	body        string
	as          string // the name under which the answer is remembered
	query       string
	contentType string
	from        string // the body is what was answered to x, changed by body as a merge patch
	compact     bool
	bound       bool // the claim that is asked for has been bound before
}

func (x exchange) name() string { return strings.TrimSpace(x.what + "?" + x.query + " " + x.body) }

func (x exchange) kind() string {
	verb, path, _ := strings.Cut(x.what, " ")
	parts := append(strings.Split(path, "/"), "", "")
	if verb == "GET" && parts[1] == "" {
		verb = "LIST"
	}
	return strings.TrimSuffix(verb+" "+parts[0]+"/"+parts[2], "/")
}

// peer is one of the two servers and what it answered.
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

var groups = map[string]string{
	"pods": "api/v1", "services": "api/v1", "persistentvolumeclaims": "api/v1", "events": "api/v1", "statefulsets": "apis/apps/v1",
	"controllerrevisions": "apis/apps/v1", "cronjobs": "apis/batch/v1", "jobs": "apis/batch/v1", "endpointslices": "apis/discovery.k8s.io/v1",
	"storageclasses": "apis/storage.k8s.io/v1", "leases": "apis/coordination.k8s.io/v1", "networks": "apis/samplecrd.k8s.io/v1", "addressblocks": "apis/samplecrd.k8s.io/v1",
	"pod2s": "apis/samplecrd.k8s.io/v1", "crontabs": "apis/stable.example.com/v1",
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
			t.Fatalf("%s: nothing was remembered as %s", p.name, parts[2])
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

// exchange returns what must be equal, and the object of which the one server may
// have more than the other.
func (p *peer) exchange(t *testing.T, ns string, x exchange) (text string, object any) {
	t.Helper()
	verb, path, _ := strings.Cut(x.what, " ")
	resource, rest, _ := strings.Cut(path, "/")
	if x.bound {
		p.bind(rest)
	}
	within := "namespaces/" + ns + "/"
	if resource == "storageclasses" {
		within = ""
	}
	url := fmt.Sprintf("%s/%s/%s%s", p.host, groups[resource], within, strings.TrimSuffix(resource+"/"+rest, "/"))
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
	if verb == "WATCH" && response.StatusCode != http.StatusOK { // of a CRD that is established, and not yet served
		if p.waited += time.Second; p.waited > patience {
			t.Fatalf("%s: %s: still %s", p.name, x.name(), response.Status)
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

func answered(status map[string]any) string {
	text := fmt.Sprint(status["reason"])
	if details, ok := status["details"].(map[string]any); ok {
		if causes, ok := details["causes"].([]any); ok && status["reason"] == "Invalid" {
			for _, c := range causes {
				text += fmt.Sprint(" ", c.(map[string]any)["field"])
				break
			}
		}
	}
	return text
}

// normal leaves out what is never the same.
func (p *peer) normal(object any) any {
	text, _ := json.Marshal(object)
	for name, o := range p.objects {
		if uid, ok := metadataOf(o)["uid"].(string); ok {
			text = bytes.ReplaceAll(text, []byte(uid), []byte("uid of "+name))
		}
	}
	var v any
	_ = json.Unmarshal(text, &v)
	return strip(v)
}

func strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range []string{
			"uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "namespace", "continue",
			"deletionTimestamp", "lastTransitionTime", "lastProbeTime",
		} {
			delete(v, field)
		}
		for key, value := range v {
			v[key] = strip(value)
		}
	case []any:
		for i := range v {
			v[i] = strip(v[i])
		}
	}
	return v
}

// lacks says where a has something that b has not, or has otherwise.
func lacks(path string, a, b any) string {
	switch a := a.(type) {
	case nil:
		return ""
	case map[string]any:
		other, _ := b.(map[string]any)
		for key, value := range a {
			if empty(value) && other[key] == nil {
				continue
			}
			if why := lacks(path+"."+key, value, other[key]); why != "" {
				return why
			}
		}
		return ""
	case []any:
		other, _ := b.([]any)
		if len(a) != len(other) {
			return fmt.Sprintf("%s: %v, not %v", path, a, b)
		}
		for i := range a {
			if why := lacks(fmt.Sprintf("%s[%d]", path, i), a[i], other[i]); why != "" {
				return why
			}
		}
		return ""
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Sprintf("%s: %v, not %v", path, a, b)
	}
	return ""
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			if !empty(value) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return v == nil || v == "" || v == float64(0) || v == false
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

// watched reads events until the bookmark after the first list, an error, or the
// event of the object named "last".
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
