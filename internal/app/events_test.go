package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// An operator restarts a Pod2 of 12 replicas twice in a row. A replica is replaced every
// ten seconds, and then one of them ends.
func TestEventsOfTwoRestartsAreAllCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewSimpleClientset()
		recorder, stop := NewRecorder(t.Context(), kube)
		defer stop()
		web := &samplecrdv1.Pod2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-of-web"}}
		for range 2 {
			for i := range 12 {
				recorder.Event(web, corev1.EventTypeNormal, "SuccessfulDelete", fmt.Sprintf("deleted web-%d: template changed", 11-i))
				time.Sleep(5 * time.Second)
				recorder.Event(web, corev1.EventTypeNormal, "SuccessfulCreate", fmt.Sprintf("created web-%d: update", 11-i))
				time.Sleep(5 * time.Second)
			}
		}
		recorder.Event(web, corev1.EventTypeWarning, "Replacing", "deleted web-3 (terminated)")
		synctest.Wait()
		events, err := kube.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told, last := map[string]int32{}, map[string]string{}
		slices.SortFunc(events.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
		for _, e := range events.Items {
			told[e.Reason] += e.Count
			last[e.Reason] = strings.TrimPrefix(e.Message, "(combined from similar events): ")
		}
		var got strings.Builder
		for _, reason := range []string{"SuccessfulDelete", "SuccessfulCreate", "Replacing"} {
			fmt.Fprintf(&got, "%d %s, the last: %s\n", told[reason], reason, last[reason])
		}
		const want = `24 SuccessfulDelete, the last: deleted web-0: template changed
24 SuccessfulCreate, the last: created web-0: update
1 Replacing, the last: deleted web-3 (terminated)
`
		if got.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &got, want)
		}
	})
}
