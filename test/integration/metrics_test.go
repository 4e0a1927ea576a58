//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/promql"
)

// docs/how-to/multi-tenancy.md limits by a quota how many Networks, and so how many time
// series, the users of a namespace create.
func TestNetworksAreBoundedByAQuota(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const counted = "count/networks.samplecrd.k8s.io"
	run(t, ns, "create", "quota", "networks", "--hard="+counted+"=1")
	// The quota controller reads CRDs every 30 s. After that it still ignores existing
	// quotas: it looks only at a quota that changes.
	eventually(t, "the quota is enforced", func(ctx context.Context) (string, error) {
		quota, err := kube.CoreV1().ResourceQuotas(ns).Get(ctx, "networks", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if _, counts := quota.Status.Used[counted]; counts {
			return "", nil
		}
		pods := quota.Spec.Hard[corev1.ResourcePods]
		pods.Add(resource.MustParse("1"))
		quota.Spec.Hard[corev1.ResourcePods] = pods
		_, err = kube.CoreV1().ResourceQuotas(ns).Update(ctx, quota, metav1.UpdateOptions{})
		return fmt.Sprintf("the status of the quota is %v", quota.Status), err
	})
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`))
	// The quota controller counts with its own informer, which may not have the first
	// Network yet.
	want := "exceeded quota: networks, requested: " + counted + "=1, used: " + counted + "=1, limited: " + counted + "=1"
	admin := knownUser(t, ns, "admin", "system:masters")
	eventually(t, "a second Network is refused", func(context.Context) (string, error) {
		if got := admin.create(t, network("green", `{cidr: 10.0.0.0/24}`)); !strings.Contains(got, want) {
			return fmt.Sprintf("%q, want %s", got, want), nil
		}
		return "", nil
	})
}

// A controller at work serves every metric that docs/reference has, except those of the
// agent, which a test of their own looks for.
func TestMetrics(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns, withMetrics, "--leader-elect", "--leader-elect-resource-namespace="+ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/30}`)+pod2("web", "replicas: 1, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
	create(t, ns, gatedPod("late", "blue"))
	waitCondition(t, ns, "network/blue", "AddressesAvailable", "False")
	pages, err := filepath.Glob(filepath.Join(root, "docs/reference/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs := ""
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		docs += string(text)
	}
	names := map[string]bool{}
	for line := range strings.Lines(docs) {
		cell, ok := strings.CutPrefix(line, "| `")
		if cell, _, _ = strings.Cut(cell, " | "); ok && !strings.HasPrefix(cell, "/") {
			for _, name := range regexp.MustCompile(`\b(pod2|workqueue|rest_client|leader_election)_[a-z_]+\b`).FindAllString(cell, -1) {
				names[name] = !strings.HasPrefix(name, "pod2_agent_")
			}
		}
	}
	if len(names) < 15 {
		t.Fatalf("the table of docs/reference has only %v", names)
	}
	page := ""
	eventually(t, "the metrics include the Network", func(ctx context.Context) (string, error) {
		page, err = c.metrics(ctx)
		for _, want := range []string{
			`pod2_network_addresses{network="blue",network_namespace="` + ns + `",state="bound"} 1`,
			`pod2_network_exhausted{network="blue",network_namespace="` + ns + `"} 1`,
			`pod2_network_ready{network="blue",network_namespace="` + ns + `"} 1`,
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
	for name, ofController := range names {
		if ofController && !regexp.MustCompile(`(?m)^`+name+`(_count)?[ {]`).MatchString(page) {
			t.Errorf("%s is in docs/reference, and not served", name)
		}
	}
}

// The queries of the Grafana dashboard, on the metrics of a controller at work. No API call fails.
func TestDashboardOnRealMetrics(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns, withMetrics, "--leader-elect", "--leader-elect-resource-namespace="+ns, "--cluster-cidrs=10.77.0.0/16")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/30}`)+network("overlaps", `{cidr: 10.77.0.0/24}`)+pod2("web", "replicas: 1, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
	var pages []string
	scrape := func(want string) {
		t.Helper()
		eventually(t, "the metrics have "+want, func(ctx context.Context) (string, error) {
			page, err := c.metrics(ctx)
			if err != nil || !strings.Contains(page, "\n"+want) {
				return "they do not", err
			}
			pages = append(pages, page)
			return "", nil
		})
	}
	scrape("pod2_address_publish_duration_seconds_count 1\n")
	run(t, ns, "delete", "pod", "web-0")
	waitReady(t, ns, "pod2/web")
	create(t, ns, gatedPod("late", "blue"))
	waitCondition(t, ns, "network/blue", "AddressesAvailable", "False")
	scrape("pod2_address_publish_duration_seconds_count 2\n")
	panels, err := promql.Panels(filepath.Join(root, "artifacts/dashboard/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	panels = slices.DeleteFunc(panels, func(p promql.Panel) bool { return p.Row == "Data plane" }) // make e2e runs these
	empty := map[string]bool{"Failing API calls": true}
	if err := promql.Run(t.Context(), filepath.Join(root, "bin/promtool"), panels, empty, promql.Target{Job: "pod2-controller", Instance: "a", Pages: pages}); err != nil {
		t.Error(err)
	}
}
