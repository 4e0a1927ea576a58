package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
)

// podsPerNode is what a KWOK node takes.
const podsPerNode = 110

// bench is a cluster with our controller, and clients without limits.
type bench struct {
	options
	dir    string
	kube   kubernetes.Interface
	sample versioned.Interface
	// controller serves all namespaces; base one in which there is nothing, so that
	// its memory is what a controller costs before the first pod.
	controller, base *process
	components       map[string]*process // of the control plane, and this program
	namespaces       int
	// standing, if not nil, is to be filled in once the next pods are Ready.
	standing *standing
	// begun, if not nil, is called when the next pods are asked for.
	begun func()
}

func newBench(ctx context.Context, o options) (_ *bench, err error) {
	b := &bench{options: o}
	if b.dir, err = os.MkdirTemp("", "pod2-bench-"); err != nil {
		return nil, fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer func() {
		if err != nil {
			b.close(ctx)
		}
	}()
	nodes := max(o.large, o.sizes[len(o.sizes)-1])/podsPerNode + 3
	if err := b.script(ctx, []string{"NODES=" + strconv.Itoa(nodes), "QPS_UNLIMITED=1"}, "hack/localcluster.sh", "up", b.dir); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the cluster: %w", err)
	}
	config.QPS = -1
	if b.sample, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	if b.kube, err = kubernetes.NewForConfig(protobuf); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	// The policies cost every write of a pod something, and what the controller may is asked at each request.
	if err := b.script(ctx, nil, "bin/kubectl", "--kubeconfig="+b.kubeconfig(), "apply", "-f", "crd/",
		"-f", "artifacts/00-namespace.yaml", "-f", "artifacts/10-rbac.yaml",
		"-f", "artifacts/30-admission-policy.yaml", "-f", "artifacts/31-validation-policies.yaml"); err != nil {
		return nil, err
	}
	if err := b.writeServiceAccountKubeconfig(ctx); err != nil {
		return nil, err
	}
	if err := b.findComponents(); err != nil {
		return nil, err
	}
	empty, err := b.newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	if b.base, err = b.startController(ctx, nil, "--namespace="+empty); err != nil {
		return nil, err
	}
	b.controller, err = b.startController(ctx, nil)
	return b, err
}

func (b *bench) kubeconfig() string { return filepath.Join(b.dir, "kubeconfig") }

func (b *bench) serviceAccountKubeconfig() string {
	return filepath.Join(b.dir, "service-account.kubeconfig")
}

// writeServiceAccountKubeconfig has our controller run as it is installed, which
// kube-controller-manager's do too on the local cluster: not as system:masters, whose
// rights nothing looks up.
func (b *bench) writeServiceAccountKubeconfig(ctx context.Context) error {
	day := int64(24 * time.Hour / time.Second)
	token, err := b.kube.CoreV1().ServiceAccounts("pod2-system").CreateToken(ctx, "pod2-controller",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a token for the controller: %w", err)
	}
	config, err := clientcmd.LoadFromFile(b.kubeconfig())
	if err != nil {
		return fmt.Errorf("read the kubeconfig of the cluster: %w", err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	if err := clientcmd.WriteToFile(*config, b.serviceAccountKubeconfig()); err != nil {
		return fmt.Errorf("write the controller's kubeconfig: %w", err)
	}
	return nil
}

// close works when ctx has ended, too.
func (b *bench) close(ctx context.Context) {
	b.controller.stop()
	b.base.stop()
	if err := b.script(context.WithoutCancel(ctx), nil, "hack/localcluster.sh", "down", b.dir); err != nil {
		fmt.Fprintf(os.Stderr, "controller: %v\n", err)
	}
	os.RemoveAll(b.dir)
}

// script runs a program of the checkout.
func (b *bench) script(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(b.root, name), args...)
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w:\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// startController returns once it is ready: its caches are full.
func (b *bench) startController(ctx context.Context, env []string, args ...string) (*process, error) {
	metrics, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	health, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(b.dir, "controller.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make the controller's log: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(b.root, "bin/pod2-controller"), append([]string{"--kubeconfig=" + b.serviceAccountKubeconfig(),
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health, "--profiling"}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, metricsURL: "http://" + metrics + "/metrics", started: time.Now()}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return get(ctx, "http://"+health+"/readyz", nil) == nil, nil
	})
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("wait for the controller to be ready: %w; its log is in %s", err, log.Name())
	}
	p.ready = time.Now()
	return p, nil
}

// freePort is host:port of one that was free a moment ago.
func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
