//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
)

// requireAPIServer installs pod2-apiserver with its switch, lists the Addresses, and removes it as
// docs/how-to/list-addresses.md says.
func (c *ownCluster) requireAPIServer(count int) {
	c.t.Helper()
	c.helm("upgrade", "pod2", "pod2", "--reuse-values", "--set=apiserver.enabled=true", "--wait", "--timeout=60s")
	port, _ := startAPIServerAs(c.t, c.account("pod2-apiserver"))
	for _, args := range servicePatches(port) {
		c.kubectl(args...)
	}
	eventually(c.t, "kubectl lists the Addresses", func(ctx context.Context) (string, error) {
		out, err := c.try(ctx, "", "get", "addresses.view.samplecrd.k8s.io", "--field-selector=status.state=Bound", "-o", "name")
		if err != nil || strings.Count(out, "address.view.samplecrd.k8s.io/blue-") != count {
			return fmt.Sprintf("it prints %q (%v)", out, err), nil
		}
		return "", nil
	})
	c.kubectl("delete", "apiservice", apiService)
	c.helm("upgrade", "pod2", "pod2", "--reuse-values", "--set=apiserver.enabled=false", "--wait", "--timeout=60s")
	left := c.kubectl("get", "apiservices,clusterroles,clusterrolebindings,deployments,services,secrets,roles,rolebindings,poddisruptionbudgets",
		"--all-namespaces", "-l", "app.kubernetes.io/name=pod2-apiserver", "-o", "name")
	if left != "" {
		c.t.Errorf("without the switch there is left\n%s", left)
	}
}
