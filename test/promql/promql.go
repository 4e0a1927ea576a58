// Package promql runs the queries of the Grafana dashboard on the metrics that programs of this
// project serve.
package promql

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Panel of the dashboard.
type Panel struct{ Row, Title, Query string }

// Panels of a dashboard, with the values that Grafana would use in the queries.
func Panels(dashboard string) ([]Panel, error) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		return nil, err
	}
	var d struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", dashboard, err)
	}
	values := strings.NewReplacer("$__rate_interval", "5m", "$network_namespace", ".*", "$network", ".*")
	var panels []Panel
	row := ""
	for _, p := range d.Panels {
		if p.Type == "row" {
			row = p.Title
		}
		for _, target := range p.Targets {
			panels = append(panels, Panel{row, p.Title, values.Replace(target.Expr)})
		}
	}
	return panels, nil
}

// Target is a program with its pages of /metrics, one a minute.
type Target struct {
	Job, Instance string
	Pages         []string
}

// Run evaluates the queries of panels at the last page. It returns an error unless each gives a
// number, and those with a title in empty give none.
func Run(ctx context.Context, promtool string, panels []Panel, empty map[string]bool, targets ...Target) error {
	type object = map[string]any
	var queries, samples []object
	pages := 0
	for _, t := range targets {
		pages = max(pages, len(t.Pages))
		for _, s := range t.series() {
			samples = append(samples, object{"series": s.name, "values": s.values})
		}
	}
	for _, p := range panels {
		// The comparison removes NaN, the quantile of a histogram without observations.
		want := 1
		if empty[p.Title] {
			want = 0
		}
		queries = append(queries, object{
			"expr": fmt.Sprintf("(count((%[1]s) == (%[1]s)) > bool 0) or vector(0)", p.Query), "eval_time": fmt.Sprintf("%dm", pages-1),
			"exp_samples": []object{{"labels": "{}", "value": want}},
		})
	}
	text, err := yaml.Marshal(object{"tests": []object{{"interval": "1m", "input_series": samples, "promql_expr_test": queries}}})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pod2-promql-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "queries.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, promtool, "test", "rules", file).CombinedOutput(); err != nil {
		return fmt.Errorf("%s (make bin/promtool builds it): %w\n%s", promtool, err, out)
	}
	return nil
}

type series struct{ name, values string }

var sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)

// series of a target, as promtool's tests write them. A page without the series has no value.
//
//	a{b="c"} 1e+06   on the second page   ->   a{b="c",job="j",instance="i"}: _ 1000000
func (t Target) series() (all []series) {
	at := map[string]int{}
	for page, text := range t.Pages {
		for line := range strings.Lines(text) {
			m := sample.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				continue // a comment
			}
			name := fmt.Sprintf("%s{%s,job=%q,instance=%q}", m[1], m[2], t.Job, t.Instance)
			name = strings.Replace(name, "{,", "{", 1)
			i, ok := at[name]
			if !ok {
				i = len(all)
				at[name] = i
				all = append(all, series{name, strings.TrimSpace(strings.Repeat("_ ", page))})
			}
			value := m[3]
			if number, err := strconv.ParseFloat(value, 64); err == nil {
				value = strings.TrimPrefix(strconv.FormatFloat(number, 'f', -1, 64), "+")
			}
			all[i].values = strings.TrimSpace(all[i].values + " " + value)
		}
	}
	return all
}
