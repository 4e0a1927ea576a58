package measure

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
)

// Cluster is the local control plane, with clients that have no rate limits.
type Cluster struct {
	Root, Dir string // directories: of the checkout, with bin/ built; of the cluster
	Audit     *Audit // of writes by service accounts
	Config    *rest.Config
	Kube      kubernetes.Interface
	Sample    versioned.Interface
}

// Nodes are the nodes of a cluster, which KWOK plays.
type Nodes struct{ Count, PodsEach int }

// PodsPerNode is the usual capacity of a node.
const PodsPerNode = 110

// StartCluster with these nodes, and apply these files of the checkout.
func StartCluster(ctx context.Context, root, dir string, nodes Nodes, files ...string) *Cluster {
	c := &Cluster{Root: root, Dir: dir, Audit: &Audit{path: filepath.Join(dir, "audit.log")}}
	c.run(ctx, []string{"NODES=" + strconv.Itoa(nodes.Count), "PODS_PER_NODE=" + strconv.Itoa(nodes.PodsEach), "QPS_UNLIMITED=1", "AUDIT_LOG=" + c.Audit.path,
		"AUDIT_POLICY=" + filepath.Join(root, "test/bench/audit-policy.yaml")}, "hack/localcluster.sh", "up", dir)
	err := Try(func() {
		for _, file := range files {
			c.Kubectl(ctx, "apply", "-f", file)
		}
		c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "-f", "crd/")
		c.Config = Must(clientcmd.BuildConfigFromFlags("", c.Kubeconfig()))
		c.Config.QPS = -1
		c.Sample = Must(versioned.NewForConfig(c.Config))
		protobuf := rest.CopyConfig(c.Config)
		protobuf.ContentType = runtime.ContentTypeProtobuf
		c.Kube = Must(kubernetes.NewForConfig(protobuf))
	})
	if err != nil {
		c.Stop(ctx)
	}
	Check(err)
	return c
}

// Kubeconfig of a user with all rights.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Kubectl of the checkout.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) {
	c.run(ctx, nil, "bin/kubectl", append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...)
}

// Stop works even after ctx has ended.
func (c *Cluster) Stop(ctx context.Context) {
	Cleanup(func() { c.run(context.WithoutCancel(ctx), nil, "hack/localcluster.sh", "down", c.Dir) })
}

func (c *Cluster) run(ctx context.Context, env []string, name string, args ...string) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Root, name), args...)
	cmd.Dir, cmd.Env = c.Root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		Check(fmt.Errorf("%s %s: %w:\n%s", name, strings.Join(args, " "), err, out))
	}
}

// Controller is a pod2-controller of the checkout.
type Controller struct {
	*Process
	address        string // serves its metrics and profiles
	Started, Ready time.Time
}

// StartController returns once the controller is ready, with full caches.
func (c *Cluster) StartController(ctx context.Context, kubeconfig string, env []string, args ...string) *Controller {
	health := FreePort(ctx)
	p := &Controller{address: "http://" + FreePort(ctx), Started: time.Now()}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(c.Root, "bin/pod2-controller"), append([]string{"--kubeconfig=" + kubeconfig,
		"--metrics-bind-address=" + strings.TrimPrefix(p.address, "http://"), "--health-probe-bind-address=" + health, "--profiling"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	p.Process = Start(cmd, filepath.Join(c.Dir, "controller.log"))
	WaitReady(ctx, http.DefaultClient, health, p.Process)
	p.Ready = time.Now()
	return p
}

// WaitReady waits until the readiness endpoint at this address succeeds. If it never does,
// WaitReady stops the process.
func WaitReady(ctx context.Context, client *http.Client, address string, p *Process) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := Try(func() {
		Until(ctx, 10*time.Millisecond, "a program to become ready", func() bool {
			_, err := Fetch(ctx, client, "http://"+address+"/readyz")
			return err == nil
		})
	})
	if err != nil {
		p.Stop()
	}
	Check(err)
}

// Fetch the controller's answer for this path.
func (p *Controller) Fetch(ctx context.Context, path string) []byte {
	return Must(Fetch(ctx, http.DefaultClient, p.address+path))
}

// Metrics of the controller.
func (p *Controller) Metrics(ctx context.Context) Metrics {
	return ParseMetrics(p.Fetch(ctx, "/metrics"))
}

// WaitSynced waits until the controller's queue has been empty for a while, and returns the
// time since when.
func (p *Controller) WaitSynced(ctx context.Context) (at time.Time) {
	last := -1.0
	Until(ctx, 50*time.Millisecond, "the controller's queue to be empty", func() bool {
		m := p.Metrics(ctx)
		ours := func(labels map[string]string) bool { return labels["name"] == "pod2" }
		done := m.Sum("pod2_sync_total", nil)
		if busy := m.Sum("workqueue_depth", ours) + m.Sum("workqueue_unfinished_work_seconds", ours); busy > 0 || done != last {
			at, last = time.Now(), done
			return false
		}
		return time.Since(at) > 500*time.Millisecond
	})
	return at
}

// FreePort is the host:port of a port that was free a moment ago.
func FreePort(ctx context.Context) string {
	l := Must(new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}

// NewNamespace for pods. It returns once pods can be created there.
func (c *Cluster) NewNamespace(ctx context.Context, name string) {
	Must(c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	Until(ctx, 100*time.Millisecond, "the service account of the pods", func() bool {
		return len(Must(c.Kube.CoreV1().ServiceAccounts(name).List(ctx, metav1.ListOptions{})).Items) > 0
	})
}
