package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pod2/pod2/test/bench/measure"
)

const spiderpoolNamespace = "kube-system" // as in its documentation

// spiderpoolValues differ from the chart's defaults: only its own components, and IPv4 only,
// like the other allocators. The certificate of the webhooks is also for this machine, whose
// sysctls the agent must not change.
var spiderpoolValues = []string{"multus.multusCNI.install=false", "spiderpoolAgent.tuneSysctlConfig=false", "ipam.enableIPv6=false", "global.ipamUNIXSocketHostPath=SOCKET",
	"spiderpoolController.tls.auto.extraDnsNames={localhost}"}

// spiderpool runs the controller and one agent. Really each node has an agent. One for all
// nodes is in its favour, because then no two agents change a pool at once.
func spiderpool() allocator {
	return allocator{
		name:  "Spiderpool",
		users: []string{measure.ServiceAccountUser(spiderpoolNamespace, "spiderpool-agent")},
		begin: func(ctx context.Context, b *bench, ns string) (cni, func()) {
			s := b.newSpiderpool(ctx)
			stop := s.start(ctx)
			if err := measure.Try(func() { s.createPool(ctx, ns) }); err != nil {
				stop()
				measure.Check(err)
			}
			end := func() {
				measure.Cleanup(func() { s.Kubectl(context.WithoutCancel(ctx), "delete", "spiderippools", ns, "--timeout=60s") })
				stop()
			}
			return cni{
				program: b.program("spiderpool"),
				env:     func(*corev1.Pod) []string { return nil },
				config: map[string]any{"cniVersion": "1.0.0", "name": ns, "type": "macvlan", "ipam": map[string]any{
					"type": "spiderpool", "default_ipv4_ippool": []string{ns}, "ipam_unix_socket_path": s.socket,
					"log_file_path": filepath.Join(b.Dir, "spiderpool-cni.log"),
				}},
			}, end
		},
	}
}

// spider is an installation of Spiderpool.
type spider struct {
	*bench
	dir, socket string
	port        string // of the webhooks
	config      string // the file that its programs read
}

// newSpiderpool renders and installs its chart, except the programs.
func (b *bench) newSpiderpool(ctx context.Context) *spider {
	s := &spider{bench: b, dir: filepath.Join(b.Dir, "spiderpool")}
	measure.Check(os.MkdirAll(s.dir, 0o700))
	s.socket, s.config = filepath.Join(s.dir, "agent.sock"), filepath.Join(s.dir, "conf.yml")
	_, s.port, _ = net.SplitHostPort(measure.FreePort(ctx))
	args := []string{"template", "spiderpool", filepath.Join(b.peer("spiderpool").dir, "charts/spiderpool"), "--namespace=" + spiderpoolNamespace,
		"--include-crds", "--no-hooks"}
	for _, value := range spiderpoolValues {
		args = append(args, "--set="+string(bytes.ReplaceAll([]byte(value), []byte("SOCKET"), []byte(s.socket))))
	}
	chart, err := exec.CommandContext(ctx, filepath.Join(b.Root, "bin/helm"), args...).Output()
	measure.Check(err)
	b.Install(ctx, s.local(chart), notOnNodes...)
	return s
}

// local lets the webhooks lead to this machine, because Services have no network on it.
// It writes the files that the programs would get as volumes.
func (s *spider) local(chart []byte) []byte {
	var out bytes.Buffer
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(chart)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out.Bytes()
		}
		measure.Check(err)
		var object unstructured.Unstructured
		measure.Check(yaml.Unmarshal(text, &object.Object))
		hooks, isHook, _ := unstructured.NestedSlice(object.Object, "webhooks")
		switch {
		case isHook:
			for _, hook := range hooks {
				toThisMachine(hook.(map[string]any)["clientConfig"].(map[string]any), s.port)
			}
			measure.Check(unstructured.SetNestedSlice(object.Object, hooks, "webhooks"))
			text = measure.Must(object.MarshalJSON())
		case object.GetKind() == "ConfigMap" && object.GetName() == "spiderpool-conf":
			config, _, _ := unstructured.NestedString(object.Object, "data", "conf.yml")
			measure.Check(os.WriteFile(s.config, []byte(config), 0o600))
		case object.GetKind() == "Secret":
			var secret corev1.Secret
			measure.Check(yaml.Unmarshal(text, &secret))
			for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
				measure.Check(os.WriteFile(filepath.Join(s.dir, name), secret.Data[name], 0o600))
			}
		}
		out.WriteString("---\n")
		out.Write(text)
		out.WriteByte('\n')
	}
}

// toThisMachine replaces the Service of a webhook's configuration by a URL.
func toThisMachine(client map[string]any, port string) {
	service := client["service"].(map[string]any)
	client["url"] = fmt.Sprintf("https://localhost:%s%s", port, service["path"])
	delete(client, "service")
}

// start the controller and the agent, with the environment of its chart.
func (s *spider) start(ctx context.Context) (stop func()) {
	s.running = nil
	stop = func() {
		measure.Cleanup(func() {
			s.Kubectl(context.WithoutCancel(ctx), "delete", "MutatingWebhookConfiguration,ValidatingWebhookConfiguration", "--all")
		})
		for _, process := range s.running {
			process.Stop()
		}
		s.running = nil
	}
	err := measure.Try(func() {
		s.run(ctx, "spiderpool-controller", []string{"--config-path=" + s.config, "--tls-server-cert=" + filepath.Join(s.dir, corev1.TLSCertKey),
			"--tls-server-key=" + filepath.Join(s.dir, corev1.TLSPrivateKeyKey)}, "SPIDERPOOL_WEBHOOK_PORT="+s.port, "SPIDERPOOL_COORDINATOR_ENABLED=true",
			"SPIDERPOOL_MULTUS_CONFIG_ENABLED=true")
		s.run(ctx, "spiderpool-agent", []string{"--config-path=" + s.config}, "SPIDERPOOL_NODE_NAME=node-000000")
	})
	if err != nil {
		stop()
	}
	measure.Check(err)
	return stop
}

// run a program until its readiness probe succeeds.
func (s *spider) run(ctx context.Context, name string, args []string, env ...string) {
	address := measure.FreePort(ctx)
	_, health, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.program(name), append([]string{"daemon"}, args...)...)
	cmd.Env = append(os.Environ(), append(env, "KUBECONFIG="+s.ServiceAccountKubeconfig(ctx, spiderpoolNamespace, name), "SPIDERPOOL_POD_NAME="+name,
		"SPIDERPOOL_POD_NAMESPACE="+spiderpoolNamespace, "SPIDERPOOL_HEALTH_PORT="+health, "SPIDERPOOL_GOPS_LISTEN_PORT=", "SPIDERPOOL_LOG_LEVEL=info")...)
	s.running = append(s.running, measure.Start(cmd, filepath.Join(s.Dir, name+".log")))
	measure.Until(ctx, 200*time.Millisecond, name+" to become ready", func() bool {
		_, err := measure.Fetch(ctx, http.DefaultClient, "http://127.0.0.1:"+health+"/v1/runtime/readiness")
		return err == nil
	})
}

// createPool creates a pool, and waits until it can be used.
func (s *spider) createPool(ctx context.Context, name string) {
	pools := s.workloads.Resource(schema.GroupVersionResource{Group: "spiderpool.spidernet.io", Version: "v2beta1", Resource: "spiderippools"})
	measure.Must(pools.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"subnet": "10.201.0.0/16", "ips": []any{"10.201.0.1-10.201.15.254"}},
	}}, metav1.CreateOptions{}))
	measure.Until(ctx, 100*time.Millisecond, "the pool", func() bool {
		count, _, _ := unstructured.NestedInt64(measure.Must(pools.Get(ctx, name, metav1.GetOptions{})).Object, "status", "totalIPCount")
		return count > 0
	})
}
