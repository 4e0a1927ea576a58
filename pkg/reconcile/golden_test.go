package reconcile

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	samplescheme "github.com/pod2/pod2/pkg/client/clientset/versioned/scheme"
	"github.com/pod2/pod2/pkg/network/addressslice"
)

// The objects that outlive a controller have the same meaning for later versions: on a cluster
// that any release left standing, this version finds nothing to change. hack/golden.sh writes
// such a cluster for each release.
func TestStandingWorlds(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			w := newWorld(t)
			until, objects := standing(t, file)
			var elsewhere []runtime.Object // only the caches of a world show them
			for _, obj := range objects {
				if _, class := obj.(*storagev1.StorageClass); class || object(obj).GetNamespace() == addressslice.NodesNamespace {
					elsewhere = append(elsewhere, obj)
				} else {
					w.add(obj)
				}
			}
			w.catchUp()
			for _, obj := range elsewhere {
				informer := w.informers.AddressSlices.Informer()
				if _, class := obj.(*storagev1.StorageClass); class {
					informer = w.informers.Classes.Informer()
				}
				w.must(informer.GetIndexer().Add(obj))
			}
			keys := map[Key]bool{}
			for _, watch := range w.r.Watches() {
				for _, obj := range objects {
					for _, key := range watch.Keys(obj) {
						keys[key] = true
					}
				}
			}
			for _, obj := range objects {
				if pod, ok := obj.(*corev1.Pod); ok { // one with its addresses does not wake itself
					keys[keyOf(KindPod, pod)] = true
				}
			}
			kinds := map[string]bool{}
			for _, later := range []time.Duration{0, 2 * time.Minute} { // some writes wait
				w.clock.SetTime(until.Add(later))
				for key := range keys {
					kinds[key.Kind], w.calls = true, nil
					if _, err := w.r.Sync(t.Context(), key); err != nil || len(w.calls) > 0 {
						t.Errorf("%s: %v\n%s", key, err, strings.Join(w.calls, "\n"))
					}
				}
			}
			same(t, strings.Join(slices.Sorted(maps.Keys(kinds)), " "), strings.Join(Kinds(), " "))
		})
	}
}

// corrected are the texts that a later version writes anew, once, because they were wrong: this
// Pod2 has a partition.
var corrected = strings.NewReplacer("message: all replicas match the spec", "message: 1 of 2 replicas are updated, as far as updateStrategy allows")

var until = regexp.MustCompile(`until (\S+Z)\.`)

// standing reads the objects of a file, and when the controller of that version was stopped.
func standing(t *testing.T, file string) (time.Time, []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, until.FindStringSubmatch(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, samplescheme.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, document := range strings.Split(corrected.Replace(string(text)), "\n---\n")[1:] {
		obj, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, obj)
	}
	return at, objects
}
