package reconcile

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
)

// settled returns a CronTab with its CronJob and a complete status.
func settled(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, newNetwork("blue"), newCronTab(false), newCronJob())
	for range 2 {
		if _, err := w.sync(KindCronTab, "ct"); err != nil {
			t.Fatal(err)
		}
		w.catchUp()
	}
	return w
}

// active sets the number of active runs in the CronJob.
func (w *world) active(n int) {
	w.t.Helper()
	cronJob := stored[*batchv1.CronJob](w, "ct").DeepCopy()
	cronJob.Status.Active = make([]corev1.ObjectReference, n)
	w.happens(cronJob)
}

// cronTabStatus syncs at the given time and renders the written status.
func (w *world) cronTabStatus(later time.Duration) string {
	w.t.Helper()
	w.later(later)
	result, err := w.r.Sync(w.t.Context(), Key{KindCronTab, ns, "ct"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.catchUp()
	return fmt.Sprintf("%d active; again in %s", stored[*stablev1.CronTab](w, "ct").Status.Active, result.RequeueAfter)
}

func TestNumbersOfACronTabAreGathered(t *testing.T) {
	w := settled(t)
	w.active(1)
	same(t, w.cronTabStatus(0), "0 active; again in 5s")
	w.active(2)
	same(t, w.cronTabStatus(4*time.Second), "0 active; again in 1s")
	w.active(3)
	same(t, w.cronTabStatus(time.Second), "3 active; again in 55m50s")
}

// If the numbers return to their old values, gathering starts over.
func TestNumbersOfACronTabThatAreAsTheyWereAreForgotten(t *testing.T) {
	w := settled(t)
	w.active(1)
	w.cronTabStatus(0)
	w.active(0)
	w.cronTabStatus(time.Second)
	w.active(1)
	same(t, w.cronTabStatus(time.Minute), "0 active; again in 5s")
}

func TestAConditionOfACronTabIsWrittenAtOnce(t *testing.T) {
	w := settled(t)
	w.active(1)
	w.remove(newNetwork("blue"))
	w.catchUp()
	same(t, w.cronTabStatus(0), "1 active; again in 55m55s")
}
