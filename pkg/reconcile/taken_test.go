package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

func services(names string) []*corev1.Service {
	var all []*corev1.Service
	for name := range strings.FieldsSeq(names) {
		all = append(all, &corev1.Service{ObjectMeta: metaOf(name)})
	}
	return all
}

func TestTakenNamesAreAdded(t *testing.T) {
	for _, row := range []struct{ name, taken, listed, want string }{
		{"one that the cache does not show", "b", "a c", "a b c, again in 30s"},
		{"one that the cache shows by now", "b", "b a", "a b, again in 0s"},
		{"none", "", "b a", "a b, again in 0s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			taken := newTaken[*corev1.Service](clocktesting.NewFakePassiveClock(now))
			for _, s := range services(row.taken) {
				taken.remember(webNames, s)
			}
			taken.remember(Key{KindEndpoints, ns, "other"}, services("x")[0])
			all, again := taken.addTo(webNames, services(row.listed))
			same(t, fmt.Sprintf("%s, again in %s", strings.Join(namesOf(all), " "), again), row.want)
		})
	}
}

// Also those of keys that nobody asks for any more.
func TestTakenNamesAreForgottenAfterAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	taken := newTaken[*corev1.Service](clock)
	taken.remember(webNames, services("a")[0])
	taken.remember(Key{KindEndpoints, ns, "gone"}, services("x")[0])
	clock.SetTime(now.Add(foundFor - time.Second))
	taken.remember(webNames, services("b")[0])
	if all, again := taken.addTo(webNames, nil); len(all) != 2 || again != time.Second {
		t.Errorf("got %v, again in %s", namesOf(all), again)
	}
	clock.SetTime(now.Add(foundFor))
	taken.remember(webNames, services("c")[0])
	same(t, fmt.Sprint(len(taken.byKey), len(taken.byKey[webNames])), "1 2")
}
