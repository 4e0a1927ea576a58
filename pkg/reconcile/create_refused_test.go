package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// creations returns the ordinals of the pods of web that a sync tried to create.
func creations(t *testing.T, w *world) (ordinals []int) {
	t.Helper()
	calls, _ := w.sync(KindPod2, "web")
	w.catchUp()
	for line := range strings.Lines(calls) {
		var ordinal int
		if n, _ := fmt.Sscanf(line, "create pods web-%d", &ordinal); n == 1 {
			ordinals = append(ordinals, ordinal)
		}
	}
	slices.Sort(ordinals)
	return ordinals
}

func refusingOrdinals(refused func(ordinal int) bool) func(string) error {
	return func(call string) error {
		var ordinal int
		if n, _ := fmt.Sscanf(call, "create pods web-%d", &ordinal); n == 1 && refused(ordinal) {
			return quota
		}
		return nil
	}
}

// A success between two refusals shows that the refusal does not affect all pods.
func TestRefusalsThatAreNotInARow(t *testing.T) {
	w := newWorld(t, newPod2("web", 60))
	w.refuse = refusingOrdinals(func(ordinal int) bool { return ordinal%2 == 0 })
	if tried := creations(t, w); len(tried) != 60 {
		t.Errorf("%d are tried: %v", len(tried), tried)
	}
}

// Later pods, beyond the limit of one attempt, are tried in the next one.
func TestTheNextAttemptBeginsFurtherOn(t *testing.T) {
	w := newWorld(t, newPod2("web", 30))
	w.refuse = refusingOrdinals(func(ordinal int) bool { return ordinal < 12 })
	same(t, fmt.Sprint(creations(t, w)), "[0 1 2 3 4 5 6 7 8 9]")
	if tried := creations(t, w); !slices.Contains(tried, 12) || !slices.Contains(tried, 29) {
		t.Errorf("then %v are tried", tried)
	}
}

// If a quota is reached in the middle of a large batch, no more calls are refused than
// otherwise.
func TestAQuotaEndsABatch(t *testing.T) {
	w := newWorld(t, newPod2("web", 500))
	w.refuse = refusingOrdinals(func(ordinal int) bool { return ordinal >= 127 })
	if tried := creations(t, w); len(tried) > 127+mostRefused+atOnce {
		t.Errorf("%d are tried", len(tried))
	}
}

// A quota that conflicts says nothing about the view.
func TestAConflictOfAQuotaIsNoStaleView(t *testing.T) {
	conflict := refusal(409, metav1.StatusReasonConflict, "the quota has been modified")
	for _, row := range []struct {
		resource string
		key      Key
		objects  []runtime.Object
	}{
		{"addressblocks", blue, crowded()},
		{"cronjobs", Key{KindCronTab, ns, "ct"}, []runtime.Object{newCronTab(false)}},
		{"services", Key{KindDNS, ns, "web"}, []runtime.Object{newPod2("web", 1, "blue"), newPod(named0)}},
		{"pods", web, []runtime.Object{newPod2("web", 1)}},
	} {
		t.Run(row.resource, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			w.refuse = refusing("create "+row.resource+" ", conflict)
			if _, err := w.r.Sync(t.Context(), row.key); !says(err, conflict) || errors.Is(err, ErrStale) {
				t.Errorf("got %v", err)
			}
		})
	}
}
