package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pod2/pod2/pkg/plan"
)

func podAt(text, version string) *corev1.Pod {
	pod := newPod(text)
	pod.ResourceVersion = version
	return pod
}

// named wants pods by their names.
func named(names string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return strings.Contains(names, pod.Name) }
}

func renderPods(pods []*corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		all = append(all, fmt.Sprintf("%s/%s", pod.Name, pod.ResourceVersion))
	}
	return strings.Join(all, " ")
}

func TestFoundPodsAreAdded(t *testing.T) {
	elsewhere := podAt("c", "5")
	elsewhere.Namespace = "other"
	for _, row := range []struct {
		name          string
		found, cached []*corev1.Pod
		want          string
	}{
		{"a pod that is not in the cache", []*corev1.Pod{podAt("b", "5")}, []*corev1.Pod{podAt("a", "3"), podAt("c", "4")}, "a/3 b/5 c/4"},
		{"a pod that the cache has in an older version", []*corev1.Pod{podAt("a", "10")}, []*corev1.Pod{podAt("a", "9")}, "a/10"},
		{"a pod that the cache has in a newer version", []*corev1.Pod{podAt("a", "9")}, []*corev1.Pod{podAt("a", "10")}, "a/10"},
		{"a pod that the cache has in the same version", []*corev1.Pod{podAt("a", "9")}, []*corev1.Pod{podAt("a", "9")}, "a/9"},
		{"pods of the cache alone", nil, []*corev1.Pod{podAt("c", "1"), podAt("a", "2"), podAt("b", "3")}, "a/2 b/3 c/1"},
		{"not a pod of another namespace", []*corev1.Pod{elsewhere}, nil, ""},
		{"not an unwanted pod", []*corev1.Pod{podAt("x", "5")}, nil, ""},
		{"the last sighting", []*corev1.Pod{podAt("a", "5"), podAt("a", "6")}, nil, "a/6"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newUnwatchedPods(clocktesting.NewFakePassiveClock(now))
			for _, pod := range row.found {
				f.remember(pod)
			}
			pods, _ := f.addTo(web, row.cached, "", named("a b c"))
			same(t, renderPods(pods), row.want)
		})
	}
}

func TestFoundPodsAreForgottenAfterAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	f := newUnwatchedPods(clock)
	f.remember(podAt("a", "5"))
	clock.SetTime(now.Add(10 * time.Second))
	f.remember(podAt("b", "6"))
	var got []string
	for _, after := range []time.Duration{29 * time.Second, 30 * time.Second, 39 * time.Second, 40 * time.Second} {
		clock.SetTime(now.Add(after))
		pods, again := f.addTo(web, nil, "", named("a b"))
		got = append(got, fmt.Sprintf("%s: %s; again in %s", after, renderPods(pods), again))
	}
	same(t, strings.Join(got, "\n"), `
29s: a/5 b/6; again in 1s
30s: b/6; again in 10s
39s: b/6; again in 1s
40s: ; again in 0s`)
}

// If the cache has seen a pod with our label come and go, the pod is gone, even after a
// fresh sighting. About a pod without the label the cache knows nothing.
func TestTheCacheOutlivesSightingsOfWhatItShows(t *testing.T) {
	f := newUnwatchedPods(clocktesting.NewFakePassiveClock(now))
	f.remember(podAt("a", "5"))
	f.remember(podAt("b unlabelled", "5"))
	var got []string
	for _, listedAt := range []string{"4", "5"} {
		pods, _ := f.addTo(web, nil, listedAt, named("a b"))
		got = append(got, listedAt+": "+renderPods(pods))
	}
	same(t, strings.Join(got, "\n"), "4: a/5 b/5\n5: b/5")
}

// A deleted pod is forgotten, but not another pod with its name and another UID.
func TestFoundPodsAreForgottenByUID(t *testing.T) {
	f := newUnwatchedPods(clocktesting.NewFakePassiveClock(now))
	f.remember(podAt("a uid=one", "5"))
	f.forget(ns, "a", "two")
	pods, _ := f.addTo(web, nil, "", named("a"))
	same(t, renderPods(pods), "a/5")
	f.forget(ns, "a", "one")
	pods, _ = f.addTo(web, nil, "", named("a"))
	same(t, renderPods(pods), "")
}

func TestFoundPodsTakeNoMemoryForever(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	f := newUnwatchedPods(clock)
	f.remember(podAt("a", "5"))
	clock.SetTime(now.Add(sightingTTL))
	f.addTo(Key{KindPod2, "other", "web"}, nil, "", named(""))
	if len(f.sightings) > 0 {
		t.Errorf("still remembered: %v", f.sightings)
	}
}

func TestFoundPodsOfOthersAreNoReasonToLookAgain(t *testing.T) {
	f := newUnwatchedPods(clocktesting.NewFakePassiveClock(now))
	f.remember(podAt("x", "5"))
	if _, again := f.addTo(web, nil, "", named("a")); again != 0 {
		t.Errorf("again in %s", again)
	}
}

func TestSoonest(t *testing.T) {
	for _, row := range [][3]time.Duration{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}} {
		if got := plan.Soonest(row[0], row[1]); got != row[2] {
			t.Errorf("plan.Soonest(%d, %d) = %d, want %d", row[0], row[1], got, row[2])
		}
	}
}

// racingIndex is a cache that changes while it is listed.
type racingIndex struct {
	cache.Indexer
	goOn func()
}

func (i racingIndex) ByIndex(index, value string) ([]any, error) {
	objects, err := i.Indexer.ByIndex(index, value)
	i.goOn()
	return objects, err
}

// The cache reached the resourceVersion of the sighting only after the list: the list
// does not prove that the pod is gone.
func TestASightingOutlivesAListThatIsOlder(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.add(newPod("web-0 label=web"))
	w.r.writePods.unwatched.remember(podOf(w, "web-0"))
	w.r.pods.indexer = racingIndex{w.r.pods.indexer, func() { w.catchUp() }}
	state, _, err := w.r.kinds.pod2.observe(web)
	if err != nil {
		t.Fatal(err)
	}
	same(t, strings.Join(namesOf(state.Pods), " "), "web-0")
}
