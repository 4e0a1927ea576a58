//go:build integration

package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// ownCluster is a cluster of one test, which installs Pod2 by itself.
type ownCluster struct {
	t          *testing.T
	kubeconfig string
}

func newOwnCluster(t *testing.T) *ownCluster {
	t.Helper()
	return clusterOf(t, root)
}

// clusterOf starts a cluster with the programs of this checkout.
func clusterOf(t *testing.T, checkout string, env ...string) *ownCluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "pod2-helm-")
	if err != nil {
		t.Fatal(err)
	}
	cluster := filepath.Join(dir, "cluster")
	removed, err := removeAtEnd(cluster, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removed(); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command(filepath.Join(checkout, "hack/localcluster.sh"), "up", cluster)
	cmd.Env = append(append(os.Environ(), "NODES=2", "QPS_UNLIMITED=1"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("start a cluster: %v\n%s", err, out)
	}
	return &ownCluster{t, filepath.Join(cluster, "kubeconfig")}
}

func (c *ownCluster) try(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin/kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "KUBECACHEDIR="+filepath.Join(filepath.Dir(c.kubeconfig), "kubecache"))
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c *ownCluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try(c.t.Context(), "", args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (c *ownCluster) helm(args ...string) string {
	c.t.Helper()
	out, err := helm(c.t, c.kubeconfig, append(args, "--namespace=pod2-system")...)
	if err != nil {
		c.t.Fatalf("helm %s: %v\n%s\n%s", strings.Join(args, " "), err, out, c.kubectl("get", "pods,jobs,events", "--all-namespaces"))
	}
	return out
}

// helmRefused runs helm, which must fail with this text.
func (c *ownCluster) helmRefused(want string, args ...string) {
	c.t.Helper()
	if out, err := helm(c.t, c.kubeconfig, append(args, "--namespace=pod2-system")...); err == nil || !strings.Contains(out, want) {
		c.t.Errorf("helm %s: %v, want %q in\n%s", strings.Join(args, " "), err, want, out)
	}
}

// controller runs pod2-controller with the rights of the release, because KWOK runs no
// container.
func (c *ownCluster) controller() *controller {
	c.t.Helper()
	return startController(c.t, "", "--kubeconfig", c.account("pod2-controller"), "--leader-elect")
}

// account is a kubeconfig of a ServiceAccount of the release.
func (c *ownCluster) account(name string) string {
	c.t.Helper()
	token := c.kubectl("create", "token", name, "--namespace=pod2-system")
	config, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &api.AuthInfo{Token: token}
	}
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		c.t.Fatal(err)
	}
	return file
}

// state is one line for each pod and Network, with its UID and its addresses, and the entries of all
// AddressBlocks.
func (c *ownCluster) state() string {
	c.t.Helper()
	pods := c.kubectl("get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.annotations.samplecrd\.k8s\.io/addresses}{"\n"}{end}`)
	networks := c.kubectl("get", "networks.samplecrd.k8s.io,pod2s", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}`)
	entries := c.kubectl("get", "addressblocks", "-o", `jsonpath={range .items[*]}{.metadata.uid} {range .spec.entries[*]}{.address} {.pod} {.podUID} {.state}{"\n"}{end}{end}`)
	return pods + "\n" + networks + "\n" + entries
}

// waitAddresses waits until this number of pods in the namespace default have addresses.
func (c *ownCluster) waitAddresses(count int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d pods have addresses", count), func(ctx context.Context) (string, error) {
		out, err := c.try(ctx, "", "get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.annotations.samplecrd\.k8s\.io/addresses}{"\n"}{end}`)
		if got := strings.Count(out, `"blue"`); got != count {
			return fmt.Sprintf("%d have", got), err
		}
		return "", err
	})
}

// nextRelease copies the charts with version 0.2.0. One CRD has another description.
func nextRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "charts"))); err != nil {
		t.Fatal(err)
	}
	for file, change := range map[string][2]string{
		"pod2/Chart.yaml":                            {"version: " + chartOf(t, "pod2").Version, "version: 99.2.0"},
		"pod2-crds/Chart.yaml":                       {"version: " + chartOf(t, "pod2-crds").Version, "version: 99.2.0"},
		"pod2-crds/files/samplecrd.k8s.io_vnis.yaml": {"      openAPIV3Schema:\n        description: ", "      openAPIV3Schema:\n        description: THE NEXT RELEASE. "},
	} {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%s does not have %q", file, change[0])
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An administrator installs the charts, upgrades them, rolls back, uninstalls and installs again, while
// 20 pods hold addresses. No object and no address is lost, and the CRDs are never older than before.
func TestHelm(t *testing.T) {
	t.Parallel()
	c := newOwnCluster(t)
	next := nextRelease(t)
	c.kubectl("apply", "-f", filepath.Join(root, "artifacts/00-namespace.yaml"), "-f", filepath.Join(root, "hack/localcluster/network-attachment-definitions.yaml"))
	c.helmRefused("install the chart pod2-crds first", "install", "pod2", "pod2")
	c.kubectl("apply", "-f", filepath.Join(root, "crd/samplecrd.k8s.io_pod2s.yaml"))
	c.helm("install", "pod2-crds", "pod2-crds", "--take-ownership") // of the CRD that kubectl has created
	notes := c.helm("install", "pod2", "pod2", "--wait", "--timeout=60s")
	for _, want := range []string{"helm test pod2 --namespace=pod2-system", "kubectl pod2 install --check"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
	for _, not := range []string{"does not enforce Pod Security", "WARNING"} {
		if strings.Contains(notes, not) {
			t.Errorf("the notes say %q:\n%s", not, notes)
		}
	}
	if strings.Contains(notes, "mutating policies are not installed") == mutatingPolicies() {
		t.Errorf("the cluster has MutatingAdmissionPolicies: %t, and the notes say\n%s", mutatingPolicies(), notes)
	}
	c.requireSmallReleases()
	running := c.controller()
	create := func(manifest string) {
		t.Helper()
		if out, err := c.try(t.Context(), manifest, "create", "-f", "-"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	eventually(t, "a policy gives a pod the gate, or refuses it without", func(ctx context.Context) (string, error) {
		out, err := c.try(ctx, "", "run", "probe", "--image=x", "--annotations=samplecrd.k8s.io/networks=blue", "--dry-run=server", "-o", "yaml")
		if mutatingPolicies() && strings.Contains(out, "name: samplecrd.k8s.io/addresses") || !mutatingPolicies() && strings.Contains(out, "needs the label") {
			return "", nil
		}
		return out, err
	})
	create(network("blue", `{cidr: 10.0.0.0/24}`) + pod2("web", "replicas: 15, networks: [{name: blue}]") + gated(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: any}
spec:
  replicas: 5
  selector: {matchLabels: {app: any}}
  template:
    metadata: {labels: {app: any}, annotations: {samplecrd.k8s.io/networks: blue}}
    spec: {containers: [{name: a, image: registry.k8s.io/pause:3.10}]}
`))
	c.waitAddresses(20)
	before := c.state()
	same := func(when string) {
		t.Helper()
		if got := c.state(); got != before {
			t.Fatalf("%s, there is\n%s\nbefore there was\n%s", when, got, before)
		}
	}

	c.helmRefused("upgrade the chart pod2-crds first", "upgrade", "pod2", filepath.Join(next, "pod2"))
	c.helm("upgrade", "pod2-crds", filepath.Join(next, "pod2-crds"))
	c.helm("upgrade", "pod2", filepath.Join(next, "pod2"), "--set=controller.replicas=3", "--wait", "--timeout=60s")
	newDefinitions := func(when string) {
		t.Helper()
		if got := c.kubectl("explain", "vnis"); !strings.Contains(got, "THE NEXT RELEASE") {
			t.Errorf("%s, the CRD is an older one:\n%s", when, got)
		}
	}
	eventually(t, "the upgrade changes the CRD", func(ctx context.Context) (string, error) {
		out, err := c.try(ctx, "", "explain", "vnis")
		if !strings.Contains(out, "THE NEXT RELEASE") {
			return out, err
		}
		return "", err
	})
	same("after the upgrade")

	c.helm("rollback", "pod2", "1", "--wait", "--timeout=60s")
	if got := c.kubectl("get", "deployment", "pod2-controller", "--namespace=pod2-system", "-o", "jsonpath={.spec.replicas}"); got != "2" {
		t.Errorf("after the rollback, there are %s replicas, want 2", got)
	}
	c.helmRefused("CustomResourceDefinitions of Pod2 are never downgraded", "rollback", "pod2-crds", "1")
	c.helmRefused("CustomResourceDefinitions of Pod2 are never downgraded", "upgrade", "pod2-crds", "pod2-crds")
	newDefinitions("after the rollback")
	c.helm("upgrade", "pod2-crds", filepath.Join(next, "pod2-crds")) // the refusals block no upgrade
	newDefinitions("after another upgrade")
	same("after the rollback")
	c.requireHelmTest(running)
	c.requireAPIServer(20)
	same("after the aggregated API server was there")

	// While no release exists, objects and pods stay. A new pod with the gate waits, and so does the
	// deletion of a Network.
	if err := running.stop(syscall.SIGTERM); err != nil {
		t.Errorf("the controller ended with %v", err)
	}
	c.helm("uninstall", "pod2", "--wait", "--timeout=60s")
	c.helm("uninstall", "pod2-crds")
	newDefinitions("after the uninstallation")
	same("after the uninstallation")
	create(gatedPod("late", "blue"))
	create(network("green", `{cidr: 10.1.0.0/24}`))
	if got := c.kubectl("get", "pod", "late", "-o", "jsonpath={.spec.schedulingGates[*].name}"); got != "samplecrd.k8s.io/addresses" {
		t.Errorf("a pod without a controller has the gates %q", got)
	}
	c.kubectl("delete", "network", "blue", "--dry-run=server")
	if got := c.kubectl("get", "network", "blue", "-o", "jsonpath={.metadata.finalizers}"); !strings.Contains(got, "samplecrd.k8s.io/in-use") {
		t.Errorf("the finalizers of the Network are %s", got)
	}
	c.kubectl("delete", "pod", "late")
	c.kubectl("delete", "network", "green") // it has no finalizer yet
	c.helmRefused("CustomResourceDefinitions of Pod2 are never downgraded", "install", "pod2-crds", "pod2-crds")
	c.helm("upgrade", "--install", "pod2-crds", filepath.Join(next, "pod2-crds"))
	newDefinitions("after the second installation")
	c.helm("install", "pod2", filepath.Join(next, "pod2"), "--wait", "--timeout=60s")
	c.controller()
	create(gatedPod("late", "blue")) // once it is bound, the controller has seen everything
	c.waitAddresses(21)
	c.kubectl("delete", "pod", "late")
	eventually(t, "the address of the pod is free", func(context.Context) (string, error) {
		for _, line := range strings.Split(c.state(), "\n") {
			if strings.Contains(line, " late ") && strings.Contains(line, "Bound") {
				return line, nil
			}
		}
		return "", nil
	})
	requireLines(t, c.state(), before)
}

// requireLines requires that all lines of the earlier state are in the later one. The address of
// another pod may rest.
func requireLines(t *testing.T, later, earlier string) {
	t.Helper()
	has := map[string]bool{}
	for line := range strings.Lines(later + "\n") {
		has[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(earlier + "\n") {
		if !has[strings.TrimSpace(line)] {
			t.Errorf("after the second installation %q is missing in\n%s", line, later)
		}
	}
}

// requireSmallReleases measures the Secrets of the releases. The API server refuses Secrets above
// 1 MiB.
func (c *ownCluster) requireSmallReleases() {
	c.t.Helper()
	sizes := map[string]int{}
	for _, name := range []string{"pod2", "pod2-crds"} {
		data := c.kubectl("get", "secret", "sh.helm.release.v1."+name+".v1", "--namespace=pod2-system", "-o", "jsonpath={.data.release}")
		stored, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			c.t.Fatal(err)
		}
		sizes[name] = len(stored)
		if len(stored) > 512<<10 {
			c.t.Errorf("the release %s has %d bytes, want at most half of the limit of 1 MiB", name, len(stored))
		}
	}
	c.t.Logf("bytes of the releases: %v", sizes)
}

// requireHelmTest runs `helm test` with the controller, and without it.
func (c *ownCluster) requireHelmTest(running *controller) {
	c.t.Helper()
	c.helm("test", "pod2", "--timeout=60s")
	gone := func(when string) {
		if left := c.kubectl("get", "jobs,pods,networks.samplecrd.k8s.io", "--namespace=pod2-system", "-o", "name"); strings.Contains(left, "pod2-test") {
			c.t.Errorf("after a test %s there is left\n%s", when, left)
		}
	}
	gone("that passed")
	if err := running.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	c.helmRefused("timed out waiting for the condition", "test", "pod2", "--timeout=8s")
	if err := running.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
	c.helm("test", "pod2", "--timeout=60s")
	gone("that failed, and one that passed")
}
