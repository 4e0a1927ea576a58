package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// massDeletion deletes many pods of a Network, some each second. It returns how many pods
// were read in lists and by gets before their addresses were released.
func massDeletion(t *testing.T, pods, perSecond int) (listed, got int) {
	t.Helper()
	w := newWorld(t, crowd(pods)...)
	w.remove(newPod("waiting"))
	w.server.PageSize = podsPerPage
	there := pods
	w.refuse = func(call string) error { // refuses no call
		if strings.HasPrefix(call, "list pods") {
			skipped := 0
			if _, after, ok := strings.Cut(call, "continue="); ok {
				_, _ = fmt.Sscan(after, &skipped)
			}
			listed += min(podsPerPage, there-skipped)
		}
		return nil
	}
	for i := 0; i < pods; {
		for range perSecond {
			w.remove(newPod(fmt.Sprintf("pod-%05d", i)))
			there--
			i++
		}
		w.catchUp()
		w.later(time.Second)
		calls, err := w.sync(KindNetwork, "blue")
		if err != nil {
			t.Fatal(err)
		}
		got += strings.Count(calls, "get pods ")
		w.catchUp()
	}
	return listed, got
}

// A get costs as much as podsPerGet listed pods. The first page says how many pods exist.
func TestMassDeletionCostsEachPodTheSame(t *testing.T) {
	const pods, perSecond = 3000, 50
	listed, got := massDeletion(t, pods, perSecond)
	t.Logf("%d pods were read in lists, %d by gets", listed, got)
	if cost := listed + podsPerGet*got; cost > 2*podsPerGet*pods {
		t.Errorf("%d pods were read in lists and %d by gets to confirm that %d are gone: more than 2 gets each", listed, got, pods)
	}
}
