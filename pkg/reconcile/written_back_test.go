package reconcile

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A sync that waits in vain says what helps.
func TestAheadForAMinuteNamesTheRemedy(t *testing.T) {
	w, _ := storesAt("9", "9")
	clock := w.clock.(*clocktesting.FakePassiveClock)
	w.wrote(blue, podsResource, "10")
	const lags = "the cache of pods is at resourceVersion 9, our last write at 10"
	clock.SetTime(now.Add(time.Hour)) // nobody asked meanwhile
	same(t, w.ahead(blue), lags)
	clock.SetTime(now.Add(time.Hour + 59*time.Second))
	same(t, w.ahead(blue), lags)
	clock.SetTime(now.Add(time.Hour + 60*time.Second))
	same(t, w.ahead(blue), lags+", for 1m0s: if etcd was restored to an older state, it never will: restart the controller")
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

func TestCheckOfVersionsThatGoBack(t *testing.T) {
	const back = "resourceVersions went back (pods from 1000 to 500): etcd was restored to an older state, " +
		"and what was written before is waited for in vain: restart the controller"
	w, stores := storesAt("990", "800")
	for _, step := range []struct{ pods, want string }{
		{"990", ""},
		{"1000", ""},
		{"1000", ""},
		{"", ""}, // a cache that cannot say
		{"500", back},
		{"500", back},
		{"1000", ""},
		{"1001", ""},
	} {
		stores[podsResource].Bookmark(step.pods)
		same(t, text(w.check()), step.want)
	}
}
