//go:build integration

package integration

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A controller at work serves every metric that docs/operations.md has.
func TestMetrics(t *testing.T) {
	ns := newNamespace(t)
	c := startController(t, ns, withMetrics, "--leader-elect", "--leader-elect-resource-namespace="+ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/30}`)+pod2("web", "replicas: 1, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
	create(t, ns, gatedPod("late", "blue"))
	waitCondition(t, ns, "network/blue", "Exhausted", "True")
	docs, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(docs)) {
		cell, ok := strings.CutPrefix(line, "| `")
		if cell, _, _ = strings.Cut(cell, " | "); ok && !strings.HasPrefix(cell, "/") {
			for _, name := range regexp.MustCompile(`\w+`).FindAllString(cell, -1) {
				names[name] = true
			}
		}
	}
	if len(names) < 15 {
		t.Fatalf("the table has %v", names)
	}
	page := ""
	eventually(t, "the metrics tell of the Network", func(ctx context.Context) (string, error) {
		page, err = c.metrics(ctx)
		for _, want := range []string{
			`pod2_network_addresses{namespace="` + ns + `",network="blue",state="bound"} 1`,
			`pod2_network_exhausted{namespace="` + ns + `",network="blue"} 1`,
			`pod2_network_ready{namespace="` + ns + `",network="blue"} 1`,
			`pod2_address_bind_duration_seconds_count 1`,
			`pod2_address_publish_duration_seconds_count 1`,
			`leader_election_master_status{name="pod2-controller"} 1`,
		} {
			if err == nil && !strings.Contains(page, want+"\n") {
				return "no " + want, nil
			}
		}
		return "", err
	})
	for name := range names {
		if !regexp.MustCompile(`(?m)^` + name + `(_count)?[ {]`).MatchString(page) {
			t.Errorf("%s is in docs/operations.md, and not served", name)
		}
	}
}
