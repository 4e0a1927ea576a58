package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pod2/pod2/test/bench/measure"
)

const kruiseNamespace = "kruise-system"

// kruiseWebhooks are the kinds of the webhooks that OpenKruise ships. Each pod passes them.
var kruiseWebhooks = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

// notOnNodes are kinds of programs. The benchmark starts the programs itself, because KWOK's
// nodes run nothing.
var notOnNodes = []string{"Deployment", "DaemonSet", "Job", "Pod"}

// kruiseManifests renders OpenKruise's own manifests.
func (b *bench) kruiseManifests(ctx context.Context) []byte {
	cmd := exec.CommandContext(ctx, filepath.Join(b.Root, "bin/kubectl"), "kustomize", filepath.Join(b.peer("kruise").dir, "config/default"))
	out, err := cmd.Output()
	if err != nil {
		measure.Check(fmt.Errorf("render the manifests of OpenKruise: %w", err))
	}
	return out
}

// installKruise installs everything except the webhooks. The garbage collector finds the
// kinds before the first lap.
func (b *bench) installKruise(ctx context.Context) {
	b.Install(ctx, b.kruiseManifests(ctx), append(kruiseWebhooks, notOnNodes...)...)
	b.kruiseKubeconfig = b.ServiceAccountKubeconfig(ctx, kruiseNamespace, "kruise-manager")
}

// startKruise starts kruise-manager with its webhooks, as its chart does: ImagePullJobGate is on,
// and the log level is 4. It makes the certificates of its webhooks itself. Like those of the other
// contenders, its client has no limits (its defaults are 30 requests a second, and 50 at once),
// and it runs without leader election.
func (b *bench) startKruise(ctx context.Context, c contender) (stop func()) {
	restore := b.withoutPod2(ctx)
	b.Install(ctx, b.kruiseManifests(ctx), append([]string{"CustomResourceDefinition"}, notOnNodes...)...)
	health := measure.FreePort(ctx)
	_, port, err := net.SplitHostPort(measure.FreePort(ctx))
	measure.Check(err)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), b.program("kruise-manager"), "--enable-leader-election=false", "--metrics-addr=0",
		"--health-probe-addr="+health, "--enable-pprof=false", "--sync-period=0", "--feature-gates=ImagePullJobGate=true", "--logtostderr=true", "--v=4",
		fmt.Sprint("--rest-config-qps=", unlimited), fmt.Sprint("--rest-config-burst=", unlimited))
	// With a host, OpenKruise writes URLs instead of a Service into its webhooks. Services have no network on this machine.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.kruiseKubeconfig, "POD_NAMESPACE="+kruiseNamespace, "WEBHOOK_HOST=localhost", "WEBHOOK_PORT="+port,
		"WEBHOOK_CERT_DIR="+filepath.Join(b.Dir, "kruise-certs"))
	manager := measure.Start(cmd, filepath.Join(b.Dir, "kruise-manager.log"))
	b.running = []*measure.Process{manager}
	stop = func() {
		measure.Cleanup(func() {
			ctx := context.WithoutCancel(ctx)
			b.Kubectl(ctx, "delete", "--all", strings.Join(kruiseWebhooks, ","))
			restore()
		})
		b.running = nil
		manager.Stop()
	}
	err = measure.Try(func() {
		measure.WaitReady(ctx, http.DefaultClient, health, manager)
		b.waitServed(ctx, c)
	})
	if err != nil {
		stop()
	}
	measure.Check(err)
	return stop
}

// unlimited is more requests a second than the machine can serve. kube-controller-manager has
// the same limit.
const unlimited = 5000

// waitServed returns once the contender's controller has created a pod: kruise-manager is ready
// before its controllers run.
func (b *bench) waitServed(ctx context.Context, c contender) {
	ns := b.newNamespace(ctx)
	pods := b.WatchPods(ctx, ns, func(watch.Event) {})
	defer pods.Stop()
	b.create(ctx, c, ns, 1)
	pods.Wait(ctx, "a first pod is Ready", func(p measure.Point) bool { return p.Ready == 1 })
	b.delete(ctx, c, ns)
	pods.Wait(ctx, "it is gone", gone)
	namespace := measure.Must(b.Kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}))
	measure.Check(b.Kube.CoreV1().Namespaces().Delete(ctx, ns, *metav1.NewPreconditionDeleteOptions(string(namespace.UID))))
}
