package docs

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/pod2/pod2/internal/app"
	"github.com/pod2/pod2/internal/serving"
)

// reference is the text of all pages of the reference, among them those of metrics and
// alerts.
func reference(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("reference/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pages of the reference, %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(readText(t, file))
	}
	return all.String()
}

// An operator who is woken by an alert finds its runbook.
func TestEveryAlertHasARunbook(t *testing.T) {
	rules, docs := readText(t, "../artifacts/alerts/pod2.rules.yaml"), reference(t)
	alerts := regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	for _, alert := range alerts {
		if !strings.Contains(docs, "# "+alert[1]+"\n") || !strings.Contains(rules, "runbook_url: https://github.com/pod2/pod2/blob/main/docs/reference/alerts.md#"+strings.ToLower(alert[1])+"\n") {
			t.Errorf("%s has no runbook", alert[1])
		}
	}
}

var metricName = regexp.MustCompile(`\b(pod2|workqueue|rest_client|leader_election)_[a-z_]+\b`)

// The alerts and the dashboard use only metrics of the documentation. An integration test looks
// for those in a running controller.
func TestAlertsAndDashboardUseDocumentedMetrics(t *testing.T) {
	var documented []string
	for line := range strings.Lines(reference(t)) {
		if strings.HasPrefix(line, "| `") {
			documented = append(documented, metricName.FindAllString(line, -1)...)
		}
	}
	for _, file := range []string{"../artifacts/alerts/pod2.rules.yaml", "../artifacts/dashboard/panels.yaml"} {
		for _, name := range metricName.FindAllString(readText(t, file), -1) {
			if !slices.Contains(documented, strings.TrimSuffix(name, "_bucket")) {
				t.Errorf("docs/reference does not have %s of %s", name, file)
			}
		}
	}
}

var bucketBound = regexp.MustCompile(`(\w+_bucket)\{.*le="(.+?)"`)

// Prometheus interpolates between existing buckets, and reports nothing beyond the last
// bucket.
func TestAlertsAreTestedWithServedBuckets(t *testing.T) {
	served := scrapedBuckets(t)
	series := bucketBound.FindAllStringSubmatch(readText(t, "../artifacts/alerts/pod2.rules.test.yaml"), -1)
	if len(series) == 0 {
		t.Fatal("no buckets")
	}
	for _, s := range series {
		if name, bound := s[1], s[2]; !slices.Contains(served[name], bound) {
			t.Errorf("%s has no bucket %s: its bounds are %v", name, bound, served[name])
		}
	}
}

// scrapedBuckets returns the upper bounds of each histogram, by the name of its buckets.
func scrapedBuckets(t *testing.T) map[string][]string {
	t.Helper()
	app.ObserveSync("Pod2", "success", time.Millisecond)
	workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "pod2"}).ShutDown()
	bounds := map[string][]string{}
	for line := range strings.Lines(scraped(t)) {
		if match := bucketBound.FindStringSubmatch(line); match != nil {
			bounds[match[1]] = append(bounds[match[1]], match[2])
		}
	}
	return bounds
}

// scraped returns the page of metrics.
func scraped(t *testing.T) string {
	t.Helper()
	answer := httptest.NewRecorder()
	serving.Metrics(k8smetrics.NewKubeRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

// A reader can look up each test that the documentation names.
func TestDocsNameTestsThatExist(t *testing.T) {
	defined := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(readText(t, path), -1) {
			defined[match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob("*.md")
	more, _ := filepath.Glob("*/*.md")
	if docs = append(docs, more...); err != nil || len(docs) == 0 {
		t.Fatalf("%d pages, %v", len(docs), err)
	}
	for _, file := range docs {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(readText(t, file), -1) {
			if !defined[name] {
				t.Errorf("%s names %s, which is not a test", file, name)
			}
		}
	}
}

// An install that names single manifests includes the roles of users. Without them, a user
// with the role `edit` can use none of Pod2's kinds.
func TestInstallsHaveTheUserRoles(t *testing.T) {
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	howTos, _ := filepath.Glob("how-to/*.md")
	found := 0
	for _, file := range append(append(files, howTos...), "../README.md", "../hack/demo.sh") {
		for line := range strings.Lines(readText(t, file)) {
			if strings.Contains(line, "apply -f crd/ -f artifacts/") {
				found++
				if strings.Contains(line, "-f artifacts/3") && !strings.Contains(line, " -f artifacts/20-user-roles.yaml") {
					t.Errorf("%s leaves out artifacts/20-user-roles.yaml: %s", file, line)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("found only %d installs", found)
	}
}
