package reconcile

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/apiserver"
)

const newerField = "fieldOfANewerVersion"

// onNewerServer records the writes, and which of them would delete a field that the
// server's types have and our types lack. It checks the top of each object, its spec and
// its status.
func (w *world) onNewerServer() (wrote, lost *[]string) {
	wrote, lost = new([]string), new([]string)
	w.server.Break(apiserver.Fault{Answer: func(c *apiserver.Call) error {
		if c.Method != http.MethodPatch && c.Method != http.MethodPut {
			return nil
		}
		what := strings.TrimSuffix(c.Resource.Resource+"/"+c.Name+"/"+c.Sub, "/")
		*wrote = append(*wrote, what)
		is := decodedJSON(w, apiserver.MustJSON(w.server.Get(c.Resource, c.Namespace, c.Name)))
		for _, place := range places(is) {
			place[newerField] = "kept"
		}
		next := c.Body
		if c.Method == http.MethodPatch {
			operations, err := jsonpatch.DecodePatch(c.Body)
			if next = apiserver.MustJSON(is); err == nil {
				next, err = operations.Apply(next)
			} else {
				next, err = jsonpatch.MergePatch(next, c.Body)
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}
		for _, place := range places(decodedJSON(w, next)) {
			if place[newerField] != "kept" {
				*lost = append(*lost, what)
			}
		}
		return nil
	}})
	return wrote, lost
}

func decodedJSON(w *world, text []byte) (value map[string]any) {
	w.t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		w.t.Fatal(err)
	}
	return value
}

// places are the places where an object has a field of a newer version.
func places(stored map[string]any) []map[string]any {
	found := []map[string]any{stored}
	for _, name := range []string{"spec", "status"} {
		if part, ok := stored[name].(map[string]any); ok {
			found = append(found, part)
		}
	}
	return found
}

// The CustomResourceDefinitions, or the API server, are upgraded before the controller.
// In between, objects have fields that our types lack.
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
		{"pods/a", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue")}, Key{KindPod, ns, "a"}},
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
			wrote, lost := w.onNewerServer()
			if _, err := w.sync(row.key.Kind, row.key.Name); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(*wrote, row.write) {
				t.Fatalf("%s is not written; got %v", row.write, *wrote)
			}
			same(t, strings.Join(*lost, " "), "")
		})
	}
}
