//go:build integration

// Package integration tests the controller's binary against a real control plane:
// kube-apiserver, etcd, controller-manager and scheduler, with KWOK instead of nodes. `make
// test` builds everything and runs these tests.
//
// Each test has its own namespace and controller, so tests run in parallel and may kill
// their controller.
package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	"github.com/pod2/pod2/test/integration/audit"
)

// The cluster that all tests share, and an administrator's access to it.
var (
	root       = "../.."
	kubeconfig string
	auditLog   string
	config     *rest.Config
	kube       kubernetes.Interface
	sample     versioned.Interface
	dyn        dynamic.Interface
	mapper     meta.RESTMapper
)

func TestMain(m *testing.M) {
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

// withCluster runs the tests on a new cluster. It stops and removes the cluster afterwards.
func withCluster(tests func() int) (code int, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "pod2-integration-")
	if err != nil {
		return 1, err
	}
	cluster := filepath.Join(dir, "cluster")
	kubeconfig, auditLog = filepath.Join(cluster, "kubeconfig"), filepath.Join(dir, "audit.log")
	removed, err := removeAtEnd(cluster, dir)
	if err != nil {
		return 1, err
	}
	defer func() {
		if removeErr := removed(); removeErr != nil && err == nil {
			err = removeErr
		}
	}()
	if out, err := script("up", cluster).CombinedOutput(); err != nil {
		return 1, fmt.Errorf("start a cluster (run `make cluster-tools build` first): %w\n%s", err, out)
	}
	if err := connect(); err != nil {
		return 1, err
	}
	if err := applyCRDs(); err != nil {
		return 1, err
	}
	if code = tests(); code == 0 {
		err = compareWithRoles(wholeSuite())
	}
	return code, err
}

// applyCRDs applies crd/ like a user, and waits until the kinds are served. It does not use
// `kubectl wait`, which fails on a CRD without conditions.
func applyCRDs() error {
	applied, err := kubectl("apply", "-o", "name", "-f", filepath.Join(root, "crd"), "-f", filepath.Join(root, "hack/localcluster/network-attachment-definitions.yaml"))
	if err != nil {
		return fmt.Errorf("apply the CRDs: %w\n%s", err, applied)
	}
	args := append([]string{"wait", "--for=condition=Established", "--timeout=" + patience.String()}, strings.Fields(applied)...)
	if out, err := inProcess(context.Background(), "", args); err != nil {
		return fmt.Errorf("wait for the CRDs: %w\n%s", err, out)
	}
	return nil
}

// wholeSuite says whether all tests ran. Without mutating policies, those of Sidecars are skipped.
func wholeSuite() bool {
	if !mutatingPolicies() {
		return false
	}
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// compareWithRoles checks S11. Most controllers of the tests ran with every right. They
// made no request that artifacts/10-rbac.yaml does not allow. In the whole suite, they made
// every request that it allows. The same is true of pod2-apiserver.
func compareWithRoles(whole bool) error {
	return errors.Join(
		compareWithRole(whole, "pod2-controller", "artifacts/10-rbac.yaml"),
		// Roles of Kubernetes let pod2-apiserver authenticate and authorize users.
		compareWithRole(whole, "pod2-apiserver", "artifacts/apiserver/apiserver.yaml",
			audit.Call{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"},
			audit.Call{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
			audit.Call{Verb: "get", Resource: "configmaps"}, audit.Call{Verb: "list", Resource: "configmaps"}, audit.Call{Verb: "watch", Resource: "configmaps"},
			// Informers list if an API server cannot stream a list.
			audit.Call{Verb: "list", Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
			audit.Call{Verb: "list", Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}))
}

// compareWithRole leaves out the calls in except.
func compareWithRole(whole bool, name, file string, except ...audit.Call) error {
	log, err := os.Open(auditLog)
	if err != nil {
		return err
	}
	defer log.Close()
	calls, err := audit.Calls(log, name+"/")
	if err != nil {
		return err
	}
	manifest, err := os.Open(filepath.Join(root, file))
	if err != nil {
		return err
	}
	defer manifest.Close()
	grants, err := audit.Grants(manifest, name)
	if err != nil {
		return err
	}
	for _, call := range except {
		delete(calls, call)
		delete(grants, call)
	}
	if refused := audit.Refused(calls, grants); len(refused) > 0 {
		return fmt.Errorf("%s made requests that %s does not allow:\n  %s", name, file, strings.Join(refused, "\n  "))
	}
	unused := audit.Unused(calls, grants)
	if whole && len(unused) > 0 {
		return fmt.Errorf("%s allows requests that no %s made in the whole suite:\n  %s", file, name, strings.Join(unused, "\n  "))
	}
	return nil
}

// removeAtEnd starts a process that waits for the end of its input, then stops the cluster
// and removes dir. So the cluster is removed however this process ends: the timeout of a
// test panics, past every defer. The returned function removes the cluster now.
func removeAtEnd(cluster, dir string) (func() error, error) {
	cmd := exec.Command("bash", "-c", `cat; "$0" down "$1" && rm -rf "$2"`, filepath.Join(root, "hack/localcluster.sh"), cluster, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so Ctrl-C does not reach it
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the process that removes the cluster at the end: %w", err)
	}
	return func() error {
		if err := input.Close(); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("remove the cluster in %s: %w", dir, err)
		}
		return nil
	}, nil
}

func script(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(root, "hack/localcluster.sh"), args...)
	// 20 nodes hold 2,200 pods. Client-side limits of the components would slow down parts
	// that are not under test.
	cmd.Env = append(os.Environ(), "NODES=20", "QPS_UNLIMITED=1", "AUDIT_LOG="+auditLog)
	return cmd
}

func connect() (err error) {
	if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return fmt.Errorf("read the kubeconfig of the cluster: %w", err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // the API server warns of the finalizer's name each time
	fast := rest.CopyConfig(config)           // for lists and watches of thousands of pods
	fast.ContentType, fast.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	if kube, err = kubernetes.NewForConfig(fast); err != nil {
		return err
	}
	if sample, err = versioned.NewForConfig(config); err != nil {
		return err
	}
	if dyn, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	discovery := memory.NewMemCacheClient(kube.Discovery())
	mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(discovery), discovery, nil)
	return nil
}

// kubectl runs the cluster's own kubectl and returns its output.
func kubectl(args ...string) (string, error) {
	return kubectlWith(context.Background(), "", args...)
}

// kubectlWith is kubectl with stdin, usually a manifest.
func kubectlWith(ctx context.Context, stdin string, args ...string) (string, error) {
	if out, err := inProcess(ctx, stdin, args); !errors.Is(err, errBinary) {
		return out, err
	}
	return kubectlBinary(ctx, stdin, args...)
}

func kubectlBinary(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin/kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(filepath.Dir(kubeconfig), "kubecache"))
	if stdin != "" {
		cmd.Stdin = stringsReader(stdin)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
