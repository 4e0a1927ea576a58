//go:build integration

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

var addressesResource = schema.GroupVersionResource{Group: "view.samplecrd.k8s.io", Version: "v1alpha1", Resource: "addresses"}

const apiService = "v1alpha1.view.samplecrd.k8s.io"

// startAPIServer runs pod2-apiserver on a free port until the end of the test, with the
// rights of its manifest. It returns the port.
func startAPIServer(t *testing.T, flags ...string) (string, *controller) {
	t.Helper()
	token, err := kube.CoreV1().ServiceAccounts("pod2-system").CreateToken(t.Context(), "pod2-apiserver", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return startAPIServerAs(t, asAuthInfo(t, func(user *api.AuthInfo) { *user = api.AuthInfo{Token: token.Status.Token} }), flags...)
}

// startAPIServerAs runs pod2-apiserver with a kubeconfig.
func startAPIServerAs(t *testing.T, account string, flags ...string) (string, *controller) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	args := []string{"--bind-address=127.0.0.1", "--secure-port=" + port}
	for _, flag := range []string{"kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"} {
		args = append(args, "--"+flag+"="+account)
	}
	return port, startProgram(t, "pod2-apiserver", exec.Command(filepath.Join(root, "bin/pod2-apiserver"), append(args, flags...)...))
}

// aggregation applies the manifest of pod2-apiserver, and removes it at the end of the test.
// While an APIService has no server, no namespace can be deleted. So tests that call this
// must not be parallel.
func aggregation(t *testing.T) {
	t.Helper()
	install(t)
	manifest := filepath.Join(root, "artifacts/apiserver/apiserver.yaml")
	t.Cleanup(func() {
		ctx := context.Background()
		for _, args := range [][]string{{"delete", "apiservice", apiService, "--ignore-not-found"}, {"delete", "--ignore-not-found", "-f", manifest}} {
			if out, err := kubectlBinary(ctx, "", args...); err != nil {
				t.Errorf("remove pod2-apiserver: %v\n%s", err, out)
			}
		}
	})
	if out, err := kubectlBinary(t.Context(), "", "apply", "-f", manifest); err != nil {
		t.Fatalf("apply %s: %v\n%s", manifest, err, out)
	}
}

// aggregate makes the Service of pod2-apiserver lead to a port of this machine.
func aggregate(t *testing.T, port string) {
	t.Helper()
	patchService(t, port)
	waitAvailable(t, "True")
}

func patchService(t *testing.T, port string) {
	t.Helper()
	for _, args := range servicePatches(port) {
		if out, err := kubectlBinary(t.Context(), "", args...); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
}

// servicePatches are the arguments of kubectl that make the Service lead to a port.
func servicePatches(port string) [][]string {
	return [][]string{
		{"patch", "service", "pod2-apiserver", "-n", "pod2-system", "--type=merge", "-p",
			fmt.Sprintf(`{"spec":{"type":"ExternalName","externalName":"localhost","clusterIP":null,"clusterIPs":null,"selector":null,"ports":[{"name":"https","port":%s}]}}`, port)},
		{"patch", "apiservice", apiService, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"service":{"port":%s}}}`, port)},
	}
}

func waitAvailable(t *testing.T, status string) {
	t.Helper()
	eventually(t, "the condition Available of the APIService is "+status, func(ctx context.Context) (string, error) {
		out, err := kubectlBinary(ctx, "", "get", "apiservice", apiService, "-o", `jsonpath={.status.conditions[?(@.type=="Available")]}`)
		if err != nil || !strings.Contains(out, `"status":"`+status+`"`) {
			return out, err
		}
		return "", nil
	})
}

// A user lists and watches addresses with kubectl, as of any resource.
func TestAddresses(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t)
	aggregate(t, port)
	ns, other := newNamespace(t), newNamespace(t)
	startController(t, ns)
	startController(t, other)
	watch := kubectlWatch(t, "get", "addresses", "-A", "-w", "--no-headers")
	create(t, ns, network("blue", `{cidr: 10.1.0.0/24}`)+network("six", `{cidr: "fd01::/120"}`)+gatedPod("web", "blue, six")+gatedPod("db", "blue"))
	create(t, other, network("blue", `{cidr: 10.1.0.0/24}`)+gatedPod("web", "blue"))
	waitReady(t, ns, "pod/web", "pod/db")
	waitReady(t, other, "pod/web")

	list := func(args ...string) string {
		t.Helper()
		out, err := kubectlBinary(t.Context(), "", append([]string{"get", "addresses", "-o", "custom-columns=:.metadata.name,:.spec.pod,:.status.state", "--no-headers"}, args...)...)
		if err != nil {
			t.Fatalf("list %v: %v\n%s", args, err, out)
		}
		var rows []string
		for row := range strings.Lines(out) {
			rows = append(rows, strings.Join(strings.Fields(row), " "))
		}
		return strings.Join(rows, "\n")
	}
	t.Run("watch", func(t *testing.T) {
		node := listPods(t, other)["web"].Spec.NodeName
		watch.waitFor(t, other, "blue-10.1.0.2", "10.1.0.2", "Bound", "web", node)
		watch.waitFor(t, ns, "six-fd01-0000-0000-0000-0000-0000-0000-0002", "fd01::2", "Bound", "web")
	})
	t.Run("names and chunks", func(t *testing.T) {
		const six = "six-fd01-0000-0000-0000-0000-0000-0000-0002 web Bound"
		if got := list("-n", ns, "--chunk-size=1", "--field-selector=spec.pod=web"); !strings.HasPrefix(got, "blue-10.1.0.") || !strings.HasSuffix(got, " web Bound\n"+six) {
			t.Errorf("the list is\n%s", got)
		}
		if got := strings.Count(list("-n", ns, "--chunk-size=1"), "\n"); got != 2 {
			t.Errorf("pages of one Address have %d, want 3:\n%s", got+1, list("-n", ns, "--chunk-size=1"))
		}
	})
	t.Run("selectors", func(t *testing.T) {
		address := addressOn(listPods(t, ns)["db"], "blue")
		for _, selector := range []string{"--field-selector=spec.address=" + address, "--field-selector=spec.network=blue,spec.pod!=web",
			"--field-selector=status.state=Bound,spec.pod=db", "--field-selector=metadata.name=blue-" + address} {
			if got, want := list("-n", ns, selector), "blue-"+address+" db Bound"; got != want {
				t.Errorf("%s selects\n%s\nwant %s", selector, got, want)
			}
		}
		if got := list("-n", ns, "-l", "samplecrd.k8s.io/network=six"); !strings.HasPrefix(got, "six-") || strings.Contains(got, "\n") {
			t.Errorf("the label of Network six selects\n%s", got)
		}
		if out, err := kubectlBinary(t.Context(), "", "get", "addresses", "--field-selector=spec.node=n"); err == nil || !strings.Contains(out, `"spec.node" is not a field selector`) {
			t.Errorf("an unknown field selector: %v, %s", err, out)
		}
	})
	t.Run("explain", func(t *testing.T) {
		eventually(t, "the API server has the schemas", func(ctx context.Context) (string, error) {
			out, err := kubectlBinary(ctx, "", "explain", "addresses.status.until")
			if err != nil || !strings.Contains(out, "until is the end of the rest") {
				return out, err
			}
			return "", nil
		})
	})
	t.Run("rights", func(t *testing.T) {
		run(t, ns, "create", "role", "reader", "--verb=get,list,watch", "--resource=addresses.view.samplecrd.k8s.io")
		run(t, ns, "create", "rolebinding", "reader", "--role=reader", "--user=alice")
		eventually(t, "alice reads the Addresses of her namespace", func(context.Context) (string, error) {
			out, err := kubectlBinary(t.Context(), "", "--as=alice", "get", "addresses", "-n", ns, "-o", "name")
			if err != nil || strings.Count(out, "\n") != 3 {
				return out, err
			}
			return "", nil
		})
		for _, where := range []string{"--namespace=" + other, "--all-namespaces"} {
			if out, err := kubectlBinary(t.Context(), "", "--as=alice", "get", "addresses", where); err == nil || !strings.Contains(out, "Forbidden") {
				t.Errorf("alice lists with %s: %v, %s", where, err, out)
			}
		}
		if out, err := kubectlBinary(t.Context(), "", "delete", "addresses", "--all", "-n", ns); err == nil || !strings.Contains(out, "MethodNotAllowed") {
			t.Errorf("an administrator deletes: %v, %s", err, out)
		}
	})
	t.Run("informer", func(t *testing.T) {
		informer := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dyn, 0, ns, nil).ForResource(addressesResource).Informer()
		go informer.RunWithContext(t.Context())
		synced := ""
		eventually(t, "an informer of client-go follows the Addresses", func(context.Context) (string, error) {
			if synced == "" && informer.HasSynced() {
				synced = informer.LastSyncResourceVersion()
				create(t, ns, gatedPod("late", "blue"))
			}
			for _, item := range informer.GetStore().List() {
				if nested(item.(runtime.Object), "spec", "pod") == "late" && nested(item.(runtime.Object), "status", "node") != "" {
					return "", nil
				}
			}
			return fmt.Sprintf("the list has version %q, and the last event %q", synced, informer.LastSyncResourceVersion()), nil
		})
		if order, err := resourceversion.CompareResourceVersion(synced, informer.LastSyncResourceVersion()); err != nil || order >= 0 {
			t.Errorf("version %s follows %s (%v)", informer.LastSyncResourceVersion(), synced, err)
		}
	})
	t.Run("versions", func(t *testing.T) {
		const first = "3" + "000000000000000003" + "000000000000000003"
		if _, err := dyn.Resource(addressesResource).Watch(t.Context(), metav1.ListOptions{ResourceVersion: first}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from the first version: %v, want 410 Expired", err)
		}
		const future = "900000000000000003" + "000000000000000003" + "000000000000000003"
		// client-go would try again, several times.
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(config.Host + "/apis/view.samplecrd.k8s.io/v1alpha1/addresses?resourceVersion=" + future)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var status metav1.Status
		if err := json.NewDecoder(answer.Body).Decode(&status); err != nil || !apierrors.HasStatusCause(apierrors.FromObject(&status), metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("a list at a future version: %v, %+v, want ResourceVersionTooLarge", err, status)
		}
	})
}

// Not parallel, as aggregation says.
func TestListAddressesPage(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t)
	aggregate(t, port)
	sweepAfter(t, "list-addresses")
	startController(t, "list-addresses")
	runUserPage(t, newNamespace(t), checkout(t), "docs/how-to/list-addresses.md", "remove helm aggregated")
}

// kubectlWatch starts kubectl, which prints until the end of the test.
func kubectlWatch(t *testing.T, args ...string) *watching {
	t.Helper()
	cmd := exec.Command(filepath.Join(root, "bin/kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+t.TempDir())
	w := &watching{}
	w.program = startProgram(t, "kubectl", cmd)
	return w
}

type watching struct{ program *controller }

// waitFor waits for a line with these words.
func (w *watching) waitFor(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("kubectl prints a line with %q", words), func(context.Context) (string, error) {
		lines := bufio.NewScanner(strings.NewReader(w.program.log.String()))
		for lines.Scan() {
			fields := " " + strings.Join(strings.Fields(lines.Text()), " ") + " "
			found := true
			for _, word := range words {
				found = found && strings.Contains(fields, " "+word+" ")
			}
			if found {
				return "", nil
			}
		}
		return "it printed\n" + w.program.log.String(), nil
	})
}

// startProgram runs a program until the end of the test. The test prints the end of its log
// if it fails.
func startProgram(t *testing.T, name string, cmd *exec.Cmd) *controller {
	t.Helper()
	c := &controller{t: t, cmd: cmd, log: &logBuffer{}, stopped: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.log, c.log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		c.err = cmd.Wait()
		close(c.stopped)
	}()
	t.Cleanup(func() {
		_ = c.stop(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, tail(c.log.String(), 25))
		}
	})
	return c
}
