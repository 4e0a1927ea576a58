// Command dashboard writes the Grafana dashboard, and the tests of its queries for
// promtool, from panels.yaml in the given directory.
//
// Usage: dashboard directory
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

type source struct {
	Samples []map[string]string `json:"samples"`
	Rows    []struct {
		Title  string  `json:"title"`
		Panels []panel `json:"panels"`
	} `json:"rows"`
}

type panel struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Query       string `json:"query"`
	Legend      string `json:"legend"`
	Unit        string `json:"unit"`
	Want        []want `json:"want"`
}

type want struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

type object = map[string]any

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboard directory")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "panels.yaml"))
	if err != nil {
		return err
	}
	var s source
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return err
	}
	for _, row := range s.Rows {
		for _, p := range row.Panels {
			if len(p.Want) == 0 {
				return fmt.Errorf("panel %s: the result of its query is not compared: set want", p.Title)
			}
		}
	}
	dashboard, err := json.MarshalIndent(s.dashboard(), "", "  ")
	if err != nil {
		return err
	}
	tests, err := yaml.Marshal(s.tests())
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"dashboard.json":      string(dashboard) + "\n",
		"dashboard.test.yaml": "# Written by make generate from panels.yaml, which overwrites manual changes.\n" + string(tests),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Each row of the grid is 24 wide, and has three panels.
const width, height = 8, 7

func (s source) dashboard() object {
	prometheus := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	y := 0
	for _, row := range s.Rows {
		panels = append(panels, object{"type": "row", "id": len(panels) + 1, "title": row.Title, "collapsed": false, "panels": []object{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y++
		for i, p := range row.Panels {
			panels = append(panels, object{
				"type": "timeseries", "id": len(panels) + 1, "title": p.Title, "description": p.Description, "datasource": prometheus,
				"gridPos":     object{"x": i % 3 * width, "y": y + i/3*height, "w": width, "h": height},
				"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0}, "overrides": []object{}},
				"targets":     []object{{"refId": "A", "datasource": prometheus, "expr": p.Query, "legendFormat": p.Legend}},
			})
		}
		y += (len(row.Panels) + 2) / 3 * height
	}
	selector := func(name, query string) object {
		return object{"type": "query", "name": name, "datasource": prometheus, "query": query, "refresh": 2, "multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"}}
	}
	return object{
		"uid": "pod2", "title": "Pod2", "tags": []string{"pod2"}, "schemaVersion": 39, "editable": true, "refresh": "30s",
		"time": object{"from": "now-1h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{
			{"type": "datasource", "name": "datasource", "query": "prometheus"},
			selector("network_namespace", "label_values(pod2_network_ready, network_namespace)"),
			selector("network", `label_values(pod2_network_ready{network_namespace=~"$network_namespace"}, network)`),
		}},
	}
}

// tests has one query a panel, with the values that Grafana would use.
func (s source) tests() object {
	values := strings.NewReplacer("$__rate_interval", "5m", "$network_namespace", ".*", "$network", ".*")
	var queries []object
	for _, row := range s.Rows {
		for _, p := range row.Panels {
			var samples []object
			for _, w := range p.Want {
				samples = append(samples, object{"labels": w.Labels, "value": w.Value})
			}
			queries = append(queries, object{"expr": values.Replace(p.Query), "eval_time": "20m", "exp_samples": samples})
		}
	}
	return object{"tests": []object{{"interval": "1m", "input_series": s.Samples, "promql_expr_test": queries}}}
}
