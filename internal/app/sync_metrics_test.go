package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/pod2/pod2/internal/serving"
	"github.com/pod2/pod2/pkg/reconcile"
)

func TestMetrics(t *testing.T) {
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "pod2"}).ShutDown() // it has metrics
	ObserveSync("Pod2", "success", time.Millisecond)
	answer := httptest.NewRecorder()
	serving.Metrics(k8smetrics.NewKubeRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`pod2_sync_total{kind="Pod2",result="success"}`,
		`pod2_sync_duration_seconds_bucket{kind="Pod2",le=`,
		`workqueue_depth{name="pod2"}`,
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("GET /metrics: %d, and no %s", answer.Code, want)
		}
	}
}

// Each result in docs/reference exists before the first sync ends with it: an alert on the
// increase of a counter misses a series that begins at 1.
func TestEveryResultOfASyncIsCountedFromZero(t *testing.T) {
	pages, err := filepath.Glob("../../docs/reference/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var reference strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		reference.Write(text)
	}
	_, words, _ := strings.Cut(reference.String(), "The results of `pod2_sync_total` are ")
	words, _, _ = strings.Cut(words, ".")
	results := strings.FieldsFunc(strings.ReplaceAll(words, " and ", ","), func(r rune) bool { return r == ',' || r == ' ' })
	if len(results) != 5 {
		t.Fatalf("results %q in %q", results, words)
	}
	metrics := scraped(t, serving.Metrics(k8smetrics.NewKubeRegistry()), "pod2_sync_total")
	for _, kind := range reconcile.Kinds() {
		for _, result := range results {
			if want := fmt.Sprintf("pod2_sync_total{kind=%q,result=%q} ", kind, result); !strings.Contains(metrics, want) {
				t.Errorf("no %s", want)
			}
		}
	}
}
