package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics of a program, by name.
type Metrics map[string]*dto.MetricFamily

// Fetch an address.
func Fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// ParseMetrics in the text format of Prometheus.
func ParseMetrics(text []byte) Metrics {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return Must(parser.TextToMetricFamilies(bytes.NewReader(text)))
}

// Sum adds up the samples of a counter or gauge whose labels match.
func (m Metrics) Sum(name string, match func(labels map[string]string) bool) (total float64) {
	for _, sample := range m[name].GetMetric() {
		labels := map[string]string{}
		for _, l := range sample.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if match == nil || match(labels) {
			total += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
		}
	}
	return total
}

// Histogram returns the number of observations of a histogram, and their sum.
func (m Metrics) Histogram(name string) (count, sum float64) {
	if m[name] == nil {
		Check(fmt.Errorf("there is no metric %s", name))
	}
	for _, sample := range m[name].GetMetric() {
		count += float64(sample.GetHistogram().GetSampleCount())
		sum += sample.GetHistogram().GetSampleSum()
	}
	return count, sum
}
