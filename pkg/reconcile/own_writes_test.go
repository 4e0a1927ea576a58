package reconcile

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

var (
	blue  = Key{KindNetwork, ns, "blue"}
	green = Key{KindNetwork, ns, "green"}
	web   = Key{KindPod2, ns, "web"}

	webNames = Key{KindDNS, ns, "web"}
)

// storesAt are caches of pods and of Networks at these resourceVersions.
func storesAt(pods, networks string) (*ownWrites, map[resource]cache.Store) {
	stores := map[resource]cache.Store{
		podsResource:     cache.NewStore(cache.MetaNamespaceKeyFunc),
		networksResource: cache.NewStore(cache.MetaNamespaceKeyFunc),
	}
	stores[podsResource].Bookmark(pods)
	stores[networksResource].Bookmark(networks)
	w := newOwnWrites(clocktesting.NewFakePassiveClock(now))
	w.stores[podsResource], w.stores[networksResource] = stores[podsResource], stores[networksResource]
	return w, stores
}

func TestAheadOfACache(t *testing.T) {
	for _, row := range []struct {
		name  string
		wrote []string // in the order of the answers
		seen  string
		want  string
	}{
		{"older", []string{"10"}, "9", "the cache of pods is at resourceVersion 9, our last write at 10"},
		{"the same", []string{"10"}, "10", ""},
		{"newer", []string{"10"}, "11", ""},
		{"a longer number is larger", []string{"100"}, "99", "the cache of pods is at resourceVersion 99, our last write at 100"},
		{"a shorter number is smaller", []string{"99"}, "100", ""},
		{"answers out of order", []string{"12", "10"}, "11", "the cache of pods is at resourceVersion 11, our last write at 12"},
		{"an empty cache", []string{"10"}, "", "the cache of pods is at resourceVersion , our last write at 10"},
		{"an answer without a version", []string{""}, "9", ""},
		{"a version that is not a number", []string{"abc"}, "9", ""},
		{"a cache whose version is not a number", []string{"10"}, "abc", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, _ := storesAt(row.seen, "1")
			for _, version := range row.wrote {
				w.wrote(blue, podsResource, version)
			}
			same(t, w.ahead(blue), row.want)
		})
	}
}

func TestAheadComparesEachResourceWithItsOwnCache(t *testing.T) {
	w, _ := storesAt("20", "5")
	w.wrote(blue, podsResource, "20")
	w.wrote(blue, networksResource, "6")
	same(t, w.ahead(blue), "the cache of networks is at resourceVersion 5, our last write at 6")
}

func TestAheadIsNotAboutOtherKeys(t *testing.T) {
	w, _ := storesAt("9", "9")
	w.wrote(blue, podsResource, "10")
	same(t, w.ahead(green), "")
}

func TestAheadForgetsWhatTheCachesShow(t *testing.T) {
	w, stores := storesAt("9", "9")
	w.wrote(blue, podsResource, "10")
	stores[podsResource].Bookmark("10")
	w.ahead(blue)
	if len(w.byKey) != 0 {
		t.Errorf("still remembered: %v", w.byKey)
	}
}

func TestAheadForgetsNothingOfOtherKeys(t *testing.T) {
	w, stores := storesAt("9", "9")
	w.wrote(blue, podsResource, "10")
	w.wrote(green, podsResource, "12")
	stores[podsResource].Bookmark("10")
	w.ahead(blue)
	same(t, w.ahead(green), "the cache of pods is at resourceVersion 10, our last write at 12")
}

func TestAheadRemembersAsLongAsOneCacheLags(t *testing.T) {
	w, stores := storesAt("9", "9")
	w.wrote(blue, podsResource, "10")
	w.wrote(blue, networksResource, "10")
	stores[networksResource].Bookmark("10")
	w.ahead(blue)
	same(t, w.ahead(blue), "the cache of pods is at resourceVersion 9, our last write at 10")
}

func TestAheadOfADeletion(t *testing.T) {
	const lags = "the cache of pods does not show yet that we deleted default/web-0"
	for _, row := range []struct {
		name, cached, want string
	}{
		{"the cache has it", "web-0", lags},
		{"it is gone", "", ""},
		{"it terminates", "web-0 going", ""},
		{"another has its name", "web-0 uid=other", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, stores := storesAt("9", "9")
			if row.cached != "" {
				if err := stores[podsResource].Add(newPod(row.cached)); err != nil {
					t.Fatal(err)
				}
			}
			w.deleted(blue, podsResource, path(ns, "web-0"), "uid-of-web-0")
			same(t, w.ahead(blue), row.want)
		})
	}
}

func TestAheadOfAWriteThatOurWatchDoesNotShow(t *testing.T) {
	for _, row := range []struct {
		name, cached, version, want string
	}{
		{"the cache has the earlier version", "web-0", "8", "the cache of pods does not show yet that our watch no longer selects default/web-0"},
		{"the cache has it, and it is terminating", "web-0 going", "8", "the cache of pods does not show yet that our watch no longer selects default/web-0"},
		{"the cache does not have it", "", "", ""},
		{"a user restored the label", "web-0", "11", ""},
		{"another has its name", "web-0 uid=other", "8", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, stores := storesAt("9", "9")
			if row.cached != "" {
				pod := newPod(row.cached)
				pod.ResourceVersion = row.version
				if err := stores[podsResource].Add(pod); err != nil {
					t.Fatal(err)
				}
				stores[podsResource].Bookmark("9")
			}
			pod := newPod("web-0 unlabelled")
			pod.ResourceVersion = "10"
			w.hidden(blue, podsResource, pod)
			same(t, w.ahead(blue), row.want)
		})
	}
}

// The API server's next bookmark, up to a minute later, would show how far the cache is.
func TestAnAnswerWithoutOurLabelIsNotWaitedFor(t *testing.T) {
	claimed := newPod2("web", 1)
	claimed.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	for _, row := range []struct {
		write   string
		objects []runtime.Object
		key     Key
	}{
		{"create pods web-0", []runtime.Object{newPod2("web", 1)}, web},
		{"create persistentvolumeclaims data-web-0", []runtime.Object{claimed}, web},
		{"create services web-blue", []runtime.Object{newPod2("web", 1, "blue")}, webNames},
		{"create endpointslices web-blue-0", append(names(newPod2("web", 1, "blue")), newPod(named0)), webNames},
	} {
		t.Run(row.write, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			w.answer = func(obj runtime.Object) { object(obj).SetLabels(nil) }
			calls, _ := w.sync(row.key.Kind, row.key.Name)
			if !slices.Contains(strings.Split(calls, "\n"), row.write) {
				t.Fatalf("no %q in:\n%s", row.write, calls)
			}
			w.catchUp(strings.Fields(row.write)[1])
			same(t, w.r.ownWrites.ahead(row.key), "")
		})
	}
}

// Otherwise the controller would create it again and again.
func TestAnAnswerWithoutOurLabelIsRemembered(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.answer = func(obj runtime.Object) { object(obj).SetLabels(nil) }
	if _, err := w.sync(KindPod2, "web"); err != nil {
		t.Fatal(err)
	}
	w.catchUp()
	calls, _ := w.sync(KindPod2, "web")
	if strings.Contains(calls, "create pods") {
		t.Errorf("calls:\n%s", calls)
	}
}

// One row for each kind of write. Until the cache of that resource shows the write, the
// next sync of the key makes no call.
func TestNoDecisionOnAViewOlderThanOurOwnWrite(t *testing.T) {
	ended := newPod("web-0 of=Pod2/web phase=Failed")
	ended.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(newPod2("web", 1))
	empty := newBlock("blue")
	empty.Spec.Sealed, empty.Finalizers = true, nil
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		key     Key
		refuse  string // the next write, refused so that the same resource gets no second write
		want    string
		lags    string
	}{
		{"finalizer", []runtime.Object{newNetwork("blue unprotected")}, blue, "patch networks/status", "patch networks blue uid=uid-of-blue rv=101", "networks"},
		{"status of a Network", []runtime.Object{newNetwork("blue")}, blue, "", "patch networks/status blue uid=uid-of-blue rv=101", "networks"},
		{"new block", []runtime.Object{newNetwork("blue"), newPod("a gated on=blue")}, blue, "", "create addressblocks blue-10.1.0.0", "addressblocks"},
		{"block", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound")}, blue, "", "patch addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102", "addressblocks"},
		{"deleted block", []runtime.Object{newNetwork("blue"), empty}, blue, "", "delete addressblocks blue-10.1.0.0 uid=uid-of-blue-10.1.0.0 rv=102", "addressblocks"},
		{"condition of a pod", []runtime.Object{newPod("a gated on=blue")}, blue, "", "patch pods/status a uid=uid-of-a", "pods"},
		{"addresses of a pod", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue")}, Key{KindPod, ns, "a"}, "",
			"patch pods a uid=uid-of-a rv=103", "pods"},
		{"new pod", []runtime.Object{newPod2("web", 1)}, web, "", "create pods web-0", "pods"},
		{"failures of pods", []runtime.Object{newPod2("web", 1), ended}, web, "delete pods", "patch pod2s web uid=uid-of-web rv=101", "pod2s"},
		{"deleted pod", []runtime.Object{newPod2("web", 1), ended}, web, "", "delete pods web-0 uid=uid-of-web-0 rv=102", "pods"},
		{"status of a Pod2", []runtime.Object{newPod2("web", 0)}, web, "", "patch pod2s/status web uid=uid-of-web rv=101", "pod2s"},
		{"new Service", []runtime.Object{newPod2("web", 1, "blue")}, webNames, "", "create services web-blue", "services"},
		{"new slice", append(names(newPod2("web", 1, "blue")), newPod(named0)), webNames, "", "create endpointslices web-blue-0", "endpointslices"},
		{"changed slice", append(names(newPod2("web", 1, "blue"), named0), newPod("web-1 of=Pod2/web published=blue:10.1.0.3")), webNames, "",
			"patch endpointslices web-blue-0 uid=uid-of-slice rv=104", "endpointslices"},
		{"deleted slice", leaving(names(newPod2("web", 1, "blue"), named0)), webNames, "", "delete endpointslices web-blue-0 uid=uid-of-slice rv=104", "endpointslices"},
		{"deleted Service", leaving(names(newPod2("web", 1, "blue"))), webNames, "", "delete services web-blue uid=uid-of-service rv=102", "services"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, deepCopy(row.objects)...)
			w.refuse = refusing(row.refuse, errors.New("stop here"))
			calls, _ := w.sync(row.key.Kind, row.key.Name)
			if !slices.Contains(strings.Split(calls, "\n"), row.want) {
				t.Fatalf("no %q in:\n%s", row.want, calls)
			}
			w.refuse = nil
			w.catchUp(row.lags)
			calls, err := w.sync(row.key.Kind, row.key.Name)
			if !errors.Is(err, ErrStale) || calls != "" {
				t.Errorf("error %v, calls:\n%s", err, calls)
			}
		})
	}
}

func TestASyncGoesOnWhenTheCachesShowItsWrites(t *testing.T) {
	w := newWorld(t, newNetwork("blue unprotected"))
	if _, err := w.sync(KindNetwork, "blue"); err != nil {
		t.Fatal(err)
	}
	w.catchUp()
	if _, err := w.sync(KindNetwork, "blue"); err != nil {
		t.Error(err)
	}
}

// The next sync after a write looks into the cache of the written resource.
func TestEveryWrittenResourceHasARow(t *testing.T) {
	r := newWorld(t).r
	all := reflect.ValueOf(r.writers)
	for i := range all.NumField() {
		if written := resource(all.Field(i).FieldByName("resource").String()); r.ownWrites.stores[written] == nil {
			t.Errorf("%s writes %q, which has no row in resources.go", all.Type().Field(i).Name, written)
		}
	}
}
