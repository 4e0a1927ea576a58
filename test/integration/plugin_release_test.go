//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A user who may update Networks, but not AddressBlocks, can release the addresses of
// scaled-down replicas. The remaining replica keeps its address. Replicas are created at the same
// time: which of them has which address differs from run to run.
func TestPluginReleases(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	newUser(t, ns, "releaser", "samplecrd.k8s.io", "networks", "get patch", "samplecrd.k8s.io", "pod2s", "get", "samplecrd.k8s.io", "addressblocks", "list", "", "pods", "list")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/29, reuseDelaySeconds: 3600}`)+pod2("web", "replicas: 4, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
	addresses := map[string]string{}
	ledger := func(want string) {
		t.Helper()
		eventually(t, "the AddressBlocks have "+want, func(ctx context.Context) (string, error) {
			block, err := sample.SamplecrdV1().AddressBlocks(ns).Get(ctx, "blue-10.0.0.0", metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			var entries []string
			for _, e := range block.Spec.Entries {
				addresses[e.Pod] = e.Address
				entries = append(entries, fmt.Sprintf("%s %s", e.Pod, e.State))
			}
			slices.Sort(entries)
			if got := strings.Join(entries, ", "); got != want {
				return "it has " + got, nil
			}
			return "", nil
		})
	}
	run(t, ns, "scale", "pod2", "web", "--replicas=1")
	ledger("web-0 Bound, web-1 Reserved, web-2 Reserved, web-3 Reserved")
	pluginRefuses(t, ns, addresses["web-0"]+" is not Reserved but Bound\n", "release", "blue", addresses["web-0"], "--as=releaser")
	requirePlugin(t, ns, "network.samplecrd.k8s.io/blue release of 1 address requested\n", "release", "blue", addresses["web-2"], "--as=releaser")
	ledger("web-0 Bound, web-1 Reserved, web-2 Resting, web-3 Reserved")
	requirePlugin(t, ns, "network.samplecrd.k8s.io/blue release of 2 addresses requested\n", "release", "blue", "--all", "--as=releaser")
	ledger("web-0 Bound, web-1 Resting, web-2 Resting, web-3 Resting")
}
