package dashboard

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pod2/pod2/internal/dashboard/view"
)

// A page shows old data while the API server is away, and none that the user may no longer read.
func TestFeedAnswers(t *testing.T) {
	pods, now := schema.GroupResource{Resource: "pods"}, time.Unix(1000, 0)
	const loaded, web = `sources/pods={"loaded":true}`, `pods/default/web-0={`
	for name, row := range map[string]struct {
		err  error
		want []string
	}{
		"an answer":               {nil, []string{web, loaded}},
		"the API server is away":  {errors.New("connection refused"), []string{web, `sources/pods={"error":"connection refused","since":1000,"loaded":true}`}},
		"the watch is too old":    {apierrors.NewResourceExpired("too old"), []string{web, loaded}},
		"the user lost the right": {apierrors.NewForbidden(pods, "", nil), []string{`sources/pods={"missing":"list and watch pods in namespace default","loaded":true}`}},
	} {
		t.Run(name, func(t *testing.T) {
			store := NewStore()
			f := newFeed(source{name: "pods", resource: "pods", where: " in namespace default", records: of(view.OfPod)}, store, func() time.Time { return now })
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}
			if err := f.Replace([]any{pod}, ""); err != nil {
				t.Fatal(err)
			}
			f.answered(row.err, true)
			all, _ := store.Since(0)
			got := told(all)
			for _, want := range row.want {
				if !strings.Contains(got, want) {
					t.Errorf("the page has\n%s\nwant %s", got, want)
				}
			}
			if len(all.Values) != len(row.want) {
				t.Errorf("the page has %d records, want %d:\n%s", len(all.Values), len(row.want), got)
			}
			if err := f.Replace([]any{pod}, ""); err != nil { // the API server answers again
				t.Fatal(err)
			}
			if all, _ := store.Since(0); string(all.Values["sources/pods"]) != `{"loaded":true}` || !json.Valid(all.Values["pods/default/web-0"]) {
				t.Errorf("then the page has %s", told(all))
			}
		})
	}
}
