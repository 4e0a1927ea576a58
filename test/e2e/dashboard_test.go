//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pod2/pod2/test/promql"
)

// The queries of the Grafana dashboard about the data plane, on the metrics of all agents. No pod
// forges an address.
func TestDashboardOnMetricsOfAgents(t *testing.T) {
	ns := newNamespace(t, "dashboard")
	agents := map[string]string{"node1": "172.18.0.11", "node2": "172.18.0.12", "node3": "172.18.0.13"}
	pages := map[string][]string{}
	scrape := func(want string) {
		t.Helper()
		for node, address := range agents {
			eventually(t, "the agent of "+node+" serves "+want, func() (string, error) {
				response, err := http.Get("http://" + address + ":9750/metrics")
				if err != nil {
					return "", err
				}
				defer response.Body.Close()
				page, err := io.ReadAll(response.Body)
				if err != nil || !strings.Contains(string(page), want) {
					return "it does not", err
				}
				pages[node] = append(pages[node], string(page))
				return "", nil
			})
		}
	}
	create(t, ns, networks+spread("d", 3, "{name: blue}"))
	waitReady(t, ns, "pod2/d")
	unused := func() {
		for _, from := range []string{"d-0", "d-1", "d-2"} {
			if got := probe(t, ns, from, "get", "-timeout=500ms", "192.168.99.99:8080"); !strings.HasPrefix(got, "192.168.99.99:8080: no ") { // answer, or route to host
				t.Errorf("%s reaches an unused address: %s", from, got)
			}
		}
	}
	unused()
	dropped := fmt.Sprintf(`pod2_agent_dropped_packets_total{network="blue",network_namespace=%q,reason="unknown"}`, ns)
	scrape(dropped)
	unused()
	run(t, ns, "delete", "pod", "d-0") // a change to program
	waitReady(t, ns, "pod2/d")
	scrape(dropped)
	panels, err := promql.Panels(filepath.Join(root, "artifacts/dashboard/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	panels = slices.DeleteFunc(panels, func(p promql.Panel) bool { return p.Row != "Data plane" })
	var targets []promql.Target
	for node := range agents {
		targets = append(targets, promql.Target{Job: "pod2-agent", Instance: node, Pages: pages[node]})
	}
	if err := promql.Run(t.Context(), filepath.Join(root, "bin/promtool"), panels, map[string]bool{"Spoofed packets": true}, targets...); err != nil {
		t.Error(err)
	}
}
