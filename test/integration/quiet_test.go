//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// writes returns the requests of controllers that change, or would change, an object in a
// namespace. It reads them from the API server's audit log: "create pods/web-0 201". It leaves
// out AddressHistories, which follow up to a minute later: history_test.go counts these.
func writes(t *testing.T, namespace string, since time.Time) (lines []string, times []time.Time) {
	t.Helper()
	file, err := os.Open(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return lines, times // an incomplete line is read next time
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(line, []byte(`"userAgent":"pod2-controller/`)) || !bytes.Contains(line, []byte(namespace)) {
			continue
		}
		var event struct {
			Verb                     string
			ObjectRef                struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("audit log: %v\n%s", err, line)
		}
		switch event.Verb {
		case "get", "list", "watch":
			continue
		}
		ref := event.ObjectRef
		if ref.Namespace != namespace || ref.Resource == "addresshistories" || event.RequestReceivedTimestamp.Before(since) {
			continue
		}
		text := strings.TrimSuffix(fmt.Sprintf("%s %s/%s/%s", event.Verb, ref.Resource, ref.Name, ref.Subresource), "/")
		lines = append(lines, fmt.Sprintf("%s %d", text, event.ResponseStatus.Code))
		times = append(times, event.RequestReceivedTimestamp)
	}
}

// withMetrics allows waitIdle and requireQuiet to query the controller.
const withMetrics = "--metrics-bind-address=127.0.0.1:0"

var (
	metricsAddress = regexp.MustCompile(`flag="metrics-bind-address" address="([^"]+)"`)
	syncsMetric    = regexp.MustCompile(`(?m)^pod2_sync_total\{.*\} ([0-9.e+]+)$`)
	addsMetric     = regexp.MustCompile(`(?m)^workqueue_adds_total\{name="pod2"\} ([0-9.e+]+)$`)
	doneMetric     = regexp.MustCompile(`(?m)^workqueue_work_duration_seconds_count\{name="pod2"\} ([0-9.e+]+)$`)
)

// metrics returns the metrics page of a controller that was started withMetrics.
func (c *controller) metrics(ctx context.Context) (string, error) {
	address := metricsAddress.FindStringSubmatch(c.log.String())
	if address == nil {
		return "", errors.New("the controller does not listen yet")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address[1]+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// stillFor is longer than the answer of a watch, and than most writes that the controller holds back: statuses, names,
// and addresses of terminated pods of a small Network.
const stillFor = 3 * time.Second

// waitIdle waits until the controller has made at least this many syncs since its start,
// and for stillFor none was due. It returns their number.
func (c *controller) waitIdle(t *testing.T, atLeast int) (syncs int) {
	t.Helper()
	last, since := 0, time.Now()
	eventually(t, "the controller is idle", func(ctx context.Context) (string, error) {
		if !strings.Contains(c.log.String(), "Controller started") {
			return "the controller has not started", nil
		}
		text, err := c.metrics(ctx)
		if err != nil {
			return "", err
		}
		sum := func(metric *regexp.Regexp) (total int) {
			for _, match := range metric.FindAllStringSubmatch(text, -1) {
				value, _ := strconv.ParseFloat(match[1], 64)
				total += int(value)
			}
			return total
		}
		syncs = sum(syncsMetric)
		adds, done := sum(addsMetric), sum(doneMetric)
		if adds != last || adds != done {
			last, since = adds, time.Now()
		}
		if still := time.Since(since); syncs < atLeast || adds == 0 || still < stillFor {
			return fmt.Sprintf("%d syncs, want at least %d; %d keys queued, %d done, for %s", syncs, atLeast, adds, done, still), nil
		}
		return "", nil
	})
	return syncs
}

// requireQuiet checks L2: since its start the controller has looked at every object. It
// looks at all again, as on a resync, and writes nothing.
func (c *controller) requireQuiet(t *testing.T, namespace string, since time.Time, kinds string) {
	t.Helper()
	before := c.waitIdle(t, 1)
	answer := run(t, namespace, "annotate", kinds, "--all", "--overwrite", "example.com/touched="+strconv.FormatInt(time.Now().UnixNano(), 36))
	// Pods wake their Pod2s and Networks, which are looked at once for many pods.
	touched := strings.Count(answer, "annotated") - strings.Count(answer, "pod/")
	after := c.waitIdle(t, before+touched)
	if got, _ := writes(t, namespace, since); len(got) > 0 {
		t.Errorf("the controller made %d writes, want none:\n%s", len(got), tail(strings.Join(got, "\n"), 20))
	}
	t.Logf("%d syncs wrote nothing", after)
}
