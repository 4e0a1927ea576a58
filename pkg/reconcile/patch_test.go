package reconcile

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
)

// newerServer is an API server whose kinds have a field that our types lack: at the top of each
// object, in its spec and in its status. It stores JSON.
type newerServer struct {
	mu      sync.Mutex
	version int
	objects map[string]map[string]any // by resource and name
	wrote   []string
}

const newerField = "fieldOfANewerVersion"

// makeNewer puts a newerServer with all that is stored behind the clients of the Reconciler.
func (w *world) makeNewer() *newerServer {
	w.t.Helper()
	s := &newerServer{version: 1000, objects: map[string]map[string]any{}}
	for _, c := range w.caches {
		list, err := c.tracker.List(c.gvr, c.gvk, c.namespace())
		if err != nil {
			w.t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, item := range items {
			text, err := json.Marshal(item)
			if err != nil {
				w.t.Fatal(err)
			}
			var stored map[string]any
			if err := json.Unmarshal(text, &stored); err != nil {
				w.t.Fatal(err)
			}
			for _, place := range places(stored) {
				place[newerField] = "kept"
			}
			s.objects[c.gvr.Resource+"/"+object(item).GetName()] = stored
		}
	}
	config := &rest.Config{Host: "http://newer", Transport: s, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	w.speakTo(Clients{Kube: kubernetes.NewForConfigOrDie(config), Sample: versioned.NewForConfigOrDie(config)})
	return s
}

// places are where an object has a field of a newer version.
func places(stored map[string]any) []map[string]any {
	found := []map[string]any{stored}
	for _, name := range []string{"spec", "status"} {
		if part, ok := stored[name].(map[string]any); ok {
			found = append(found, part)
		}
	}
	return found
}

// RoundTrip serves as an API server does: a PUT replaces the object, or its status, and a merge
// patch changes what it names.
func (s *newerServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	_, path, _ := strings.Cut(r.URL.Path, "/namespaces/"+ns+"/")
	parts := append(strings.Split(path, "/"), "", "")
	key, status := parts[0]+"/"+parts[1], parts[2] == "status"
	old, exists := s.objects[key]
	switch {
	case r.Method == http.MethodGet && parts[1] == "":
		items := []any{}
		for _, name := range slices.Sorted(maps.Keys(s.objects)) {
			if strings.HasPrefix(name, parts[0]+"/") {
				items = append(items, s.objects[name])
			}
		}
		return respond(http.StatusOK, map[string]any{"items": items}), nil
	case r.Method == http.MethodPost:
		return respond(http.StatusCreated, json.RawMessage(body)), nil
	case !exists:
		return respond(http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{Resource: parts[0]}, parts[1]).ErrStatus), nil
	case r.Method == http.MethodDelete:
		return respond(http.StatusOK, map[string]any{}), nil
	case r.Method == http.MethodPatch:
		text, _ := json.Marshal(old)
		body, _ = jsonpatch.MergePatch(text, body)
	}
	if r.Method != http.MethodGet {
		var next map[string]any
		if err := json.Unmarshal(body, &next); err != nil {
			return nil, err
		}
		if status {
			merged := maps.Clone(old)
			merged["status"] = next["status"]
			next = merged
		}
		s.version++
		next["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
		s.objects[key] = next
		s.wrote = append(s.wrote, strings.TrimSuffix(path, "/"))
	}
	return respond(http.StatusOK, s.objects[key]), nil
}

func respond(code int, value any) *http.Response {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text))}
}

// lost are the objects that lack the field in one of its places.
func (s *newerServer) lost() string {
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		for _, place := range places(s.objects[name]) {
			if place[newerField] != "kept" && !slices.Contains(lost, name) {
				lost = append(lost, name)
			}
		}
	}
	return strings.Join(lost, " ")
}

// Between the upgrade of the CustomResourceDefinitions, or of the API server, and that of the
// controller, objects have fields that our types lack.
func TestWritesKeepFieldsThatOurTypesLack(t *testing.T) {
	wide := names(newPod2("web", 1, "blue"), named0)
	wide = append(wide, newNetwork("blue"))
	old := newPod2("web", 0)
	old.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	orphan := revisionOf(old)
	orphan.Name, orphan.UID, orphan.OwnerReferences = "web-orphan", "uid-of-orphan", nil
	for _, row := range []struct {
		write   string
		objects []runtime.Object
		key     Key
	}{
		{"networks/blue", []runtime.Object{newNetwork("blue unprotected")}, blue},
		{"networks/blue/status", []runtime.Object{newNetwork("blue")}, blue},
		{"networks/blue", []runtime.Object{newNetwork("blue going")}, blue},
		{"network-attachment-definitions/blue", []runtime.Object{newNetwork("blue told"), newDefinition("blue")}, Key{KindMultus, ns, "blue"}},
		{"addressblocks/blue-10.1.0.0", []runtime.Object{newNetwork("blue"), newBlock("blue"), newPod("a gated on=blue")}, blue},
		{"pod2s/web/status", []runtime.Object{newPod2("web", 0)}, web},
		{"pod2s/web", []runtime.Object{newPod2("web", 1), replica("web-0 phase=Failed")}, web},
		{"controllerrevisions/web-orphan", []runtime.Object{old, orphan}, web},
		{"services/web-blue", orphaned(deepCopy(wide)), Key{KindDNS, ns, "web"}},
		{"endpointslices/web-blue-0", append(deepCopy(wide), newPod("web-1 of=Pod2/web published=blue:10.1.0.3")), Key{KindDNS, ns, "web"}},
		{"crontabs/ct", []runtime.Object{newCronTab(true)}, Key{KindCronTab, ns, "ct"}},
		{"crontabs/ct/status", []runtime.Object{newNetwork("blue"), newCronTab(false)}, Key{KindCronTab, ns, "ct"}},
		{"cronjobs/ct", []runtime.Object{newNetwork("blue"), newCronTab(false), newCronJob()}, Key{KindCronTab, ns, "ct"}},
	} {
		t.Run(row.key.Kind+" writes "+row.write, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			s := w.makeNewer()
			if _, err := w.sync(row.key.Kind, row.key.Name); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(s.wrote, row.write) {
				t.Fatalf("%s is not written, but %v", row.write, s.wrote)
			}
			same(t, s.lost(), "")
		})
	}
}
