package reconcile

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// The error of a sync that waits for too long names the remedy.
func TestAheadForAMinuteNamesTheRemedy(t *testing.T) {
	w, _ := storesAt("9", "9")
	clock := w.clock.(*clocktesting.FakePassiveClock)
	w.wrote(blue, podsResource, "10")
	const lags = "the cache of pods is at resourceVersion 9, our last write at 10"
	clock.SetTime(now.Add(time.Hour)) // without a sync in between
	same(t, w.ahead(blue), lags)
	clock.SetTime(now.Add(time.Hour + 59*time.Second))
	same(t, w.ahead(blue), lags)
	clock.SetTime(now.Add(time.Hour + 60*time.Second))
	same(t, w.ahead(blue), lags+" (for 1m0s): if etcd was restored to an older state, the cache will never show it: restart the controller")
}

func TestAheadOnceSeenBeginsAnew(t *testing.T) {
	w, stores := storesAt("9", "9")
	clock := w.clock.(*clocktesting.FakePassiveClock)
	w.wrote(blue, podsResource, "10")
	w.ahead(blue)
	stores[podsResource].Bookmark("10")
	w.ahead(blue)
	clock.SetTime(now.Add(time.Hour))
	w.wrote(blue, podsResource, "11")
	same(t, w.ahead(blue), "the cache of pods is at resourceVersion 10, our last write at 11")
}

const wentBack = "etcd was restored to an older state, so the caches are wrong: restart the controller"

func TestCheckOfVersionsThatGoBack(t *testing.T) {
	const back = "resourceVersions went back (pods from 1000 to 500): " + wentBack
	w, stores := storesAt("990", "800")
	for _, step := range []struct{ pods, want string }{
		{"990", ""},
		{"1000", ""},
		{"1000", ""},
		{"", ""}, // a cache without a version
		{"500", back},
		{"600", back},
		{"1001", back}, // the changes in between are missing
	} {
		stores[podsResource].Bookmark(step.pods)
		same(t, text(w.check()), step.want)
	}
}

// A cache with a silent watch keeps its version.
func TestCheckOfALiveReadThatIsOlder(t *testing.T) {
	for _, row := range []struct{ cache, answer, want string }{
		{"800", "900", ""},
		{"800", "800", ""},
		{"800", "", ""}, // a fake clientset
		{"", "800", ""},
		{"800", "799", "resourceVersions went back (networks from 800 to 799): " + wentBack},
	} {
		w, _ := storesAt("1000", row.cache)
		w.answered(networksResource, w.newest(networksResource), row.answer)
		same(t, text(w.check()), row.want)
		w.answered(networksResource, w.newest(networksResource), "1200")
		same(t, text(w.check()), row.want)
	}
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
