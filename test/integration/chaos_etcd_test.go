//go:build integration && chaos

package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// etcd is restored to its state 2,000 versions ago while a controller runs. The
// controller's watches stay silent then. Its liveness probe reports the restore, and the
// next controller works from the restored state.
func TestChaosEtcdIsRestored(t *testing.T) {
	ns := newNamespace(t)
	probes := freeAddress(t)
	c := startController(t, ns, "--health-probe-bind-address="+probes)
	create(t, ns, network("blue", "{cidr: 10.0.0.0/28}")+pod2("web", "replicas: 2, networks: [{name: blue}]"))
	waitReady(t, ns, "pod2/web")
	before := addresses(t, ns)

	etcd := findComponent(t, "etcd")
	data, backup := etcd.flag(t, "data-dir"), filepath.Join(t.TempDir(), "backup")
	etcd.kill(t)
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	etcd.restart(t)
	apiServer := findComponent(t, "kube-apiserver")
	apiServer.killAndRestart(t)

	patchPod2(t, ns, "web", `{"spec":{"replicas":5}}`)
	waitReady(t, ns, "pod2/web")
	writeVersions(t, ns, 2000)
	requireProbe(t, probes, "ok")

	names := []string{"kube-scheduler", "kube-controller-manager", "kwok-controller"}
	var others []*component
	for _, name := range names {
		others = append(others, findComponent(t, name))
	}
	for _, process := range append(others, apiServer, etcd) {
		process.kill(t)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	etcd.restart(t)
	apiServer.restart(t)
	requireProbe(t, probes, "resourceVersions went back (")
	// A restarted KWOK waits until the leases of the previous one have expired.
	if err := kube.CoordinationV1().Leases("kube-node-lease").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, process := range others {
		process.restart(t)
	}
	supervise(t, names...)

	_ = c.stop(syscall.SIGKILL) // as the kubelet does
	startController(t, ns)
	patchPod2(t, ns, "web", `{"spec":{"replicas":4}}`)
	waitReplicas(t, ns, "web", 4)
	waitReady(t, ns, "pod2/web")
	after := addresses(t, ns)
	for pod, address := range before {
		if after[pod] != address {
			t.Errorf("pod %s had %s and now has %s", pod, address, after[pod])
		}
	}
	requireUnique(t, ns)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// requireProbe waits until the answer of /healthz has this text.
func requireProbe(t *testing.T, address, text string) {
	t.Helper()
	eventually(t, "/healthz says "+text, func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
		if err != nil {
			return "", err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if strings.Contains(string(body), text) {
			return "", err
		}
		return string(body), err
	})
}

// writeVersions increases the API server's resourceVersion by n, with many parallel
// writers.
func writeVersions(t *testing.T, namespace string, n int) {
	t.Helper()
	const writers = 20
	failed := make(chan error, writers)
	for writer := range writers {
		go func() {
			var err error
			for i := 0; i < n/writers && err == nil; i++ {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("writer-%d", writer)}, Data: map[string]string{"i": fmt.Sprint(i)}}
				if i == 0 {
					_, err = kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
				} else {
					_, err = kube.CoreV1().ConfigMaps(namespace).Update(t.Context(), object, metav1.UpdateOptions{})
				}
			}
			failed <- err
		}()
	}
	for range writers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}
