//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Helm takes over the installation of these tests. On real kubelets, `helm test` passes with
// the controller, and fails without it.
func TestHelmTest(t *testing.T) {
	home := t.TempDir()
	helm := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(root, "bin/helm"), append(args, "--namespace=pod2-system")...)
		cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) {
		t.Helper()
		if out, err := helm(args...); err != nil {
			pods, _ := kubectl("", "--namespace=pod2-system", "get", "pods,jobs,events", "--output=wide")
			t.Fatalf("helm %s: %v\n%s\n%s", strings.Join(args, " "), err, out, pods)
		}
	}
	t.Cleanup(func() { // the objects stay as they are, without their releases
		run(t, "pod2-system", "delete", "secret", "--selector=owner=helm")
		run(t, "", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "pod2-definitions.samplecrd.k8s.io")
	})
	image := func(namespace, object string) string {
		return run(t, namespace, "get", object, "--output=jsonpath={.spec.template.spec.containers[0].image}")
	}
	images := "controller.image=" + image("pod2-system", "deployment/pod2-controller") + ",agent.image=" + image("pod2-agent", "daemonset/pod2-agent")
	must("install", "pod2-crds", filepath.Join(root, "charts/pod2-crds"), "--take-ownership")
	must("install", "pod2", filepath.Join(root, "charts/pod2"), "--take-ownership", "--set=agent.enabled=true,"+images, "--wait", "--timeout=120s")
	must("test", "pod2", "--timeout=60s")

	t.Cleanup(func() {
		run(t, "pod2-system", "scale", "deployment/pod2-controller", "--replicas=2")
		run(t, "pod2-system", "rollout", "status", "deployment/pod2-controller", "--timeout="+patience.String())
	})
	run(t, "pod2-system", "scale", "deployment/pod2-controller", "--replicas=0")
	run(t, "pod2-system", "wait", "--for=delete", "pods", "--selector=app.kubernetes.io/name=pod2-controller", "--timeout="+patience.String())
	if out, err := helm("test", "pod2", "--timeout=15s"); err == nil || !strings.Contains(out, "timed out waiting") {
		t.Errorf("helm test without a controller: %v\n%s", err, out)
	}
	run(t, "pod2-system", "scale", "deployment/pod2-controller", "--replicas=2")
	run(t, "pod2-system", "rollout", "status", "deployment/pod2-controller", "--timeout="+patience.String())
	must("test", "pod2", "--timeout=60s")
}
