//go:build integration

// Package integration tests the controller's binary against a real control
// plane: kube-apiserver, etcd, controller-manager and scheduler, with KWOK in the
// place of nodes. `make test` builds all of it and runs these tests.
//
// Each test has a namespace and a controller of its own, so that tests run side
// by side and may kill their controller.
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

// The cluster that all tests share, and how to reach it as an administrator.
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

// withCluster runs the tests on a cluster of their own, which it leaves neither
// running nor on disk.
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
		return 1, fmt.Errorf("start a cluster (`make cluster-tools build` makes what it needs): %w\n%s", err, out)
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

// applyCRDs applies crd/ as its users do, and waits until the kinds are served. Not
// by `kubectl wait`, which fails on a CRD that has no conditions yet.
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

func wholeSuite() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// compareWithRoles is S11: the controllers of all tests, most of whom ran with
// every right, made no request that artifacts/10-rbac.yaml does not allow; those
// of the whole suite made every one that it allows.
func compareWithRoles(whole bool) error {
	log, err := os.Open(auditLog)
	if err != nil {
		return err
	}
	defer log.Close()
	calls, err := audit.Calls(log, "pod2-controller/")
	if err != nil {
		return err
	}
	manifest, err := os.Open(filepath.Join(root, "artifacts/10-rbac.yaml"))
	if err != nil {
		return err
	}
	defer manifest.Close()
	grants, err := audit.Grants(manifest, "pod2-controller")
	if err != nil {
		return err
	}
	if refused := audit.Refused(calls, grants); len(refused) > 0 {
		return fmt.Errorf("controllers made requests that artifacts/10-rbac.yaml does not allow:\n  %s", strings.Join(refused, "\n  "))
	}
	unused := audit.Unused(calls, grants)
	if whole && len(unused) > 0 {
		return fmt.Errorf("artifacts/10-rbac.yaml allows what no controller made use of in the whole suite:\n  %s", strings.Join(unused, "\n  "))
	}
	return nil
}

// removeAtEnd starts a process that stops the cluster and removes dir when this
// one ends in whatever way (a test's timeout panics, past every defer): it waits
// for the end of its input. The function returned makes it do so now.
func removeAtEnd(cluster, dir string) (func() error, error) {
	cmd := exec.Command("bash", "-c", `cat; "$0" down "$1" && rm -rf "$2"`, filepath.Join(root, "hack/localcluster.sh"), cluster, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start what removes the cluster in the end: %w", err)
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
	// 20 nodes take 2,200 pods. The components' own client-side limits would
	// slow down what is not under test.
	cmd.Env = append(os.Environ(), "NODES=20", "QPS_UNLIMITED=1", "AUDIT_LOG="+auditLog)
	return cmd
}

func connect() (err error) {
	if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return fmt.Errorf("read the kubeconfig of the cluster: %w", err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // of our own finalizer's name, over and over
	fast := rest.CopyConfig(config)           // thousands of pods are listed and watched
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

// kubectl runs the cluster's own kubectl and returns what it prints.
func kubectl(args ...string) (string, error) {
	return kubectlWith(context.Background(), "", args...)
}

// kubectlWith passes stdin, a manifest mostly.
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
