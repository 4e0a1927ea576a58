//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pod2/pod2/pkg/attachment"
)

// patience is the limit of every wait; a longer wait fails the test.
const patience = 3 * time.Minute

func command(args ...string) *exec.Cmd { return exec.Command("kubectl", args...) }

// kubectl returns the output of both streams.
func kubectl(stdin string, args ...string) (string, error) {
	cmd := command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run runs kubectl in a namespace; "" for none.
func run(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	if namespace != "" {
		args = append([]string{"--namespace", namespace}, args...)
	}
	out, err := kubectl("", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// create creates the objects of a manifest.
func create(t *testing.T, namespace, manifest string) {
	t.Helper()
	if out, err := kubectl(manifest, "--namespace", namespace, "create", "-f", "-"); err != nil {
		t.Fatalf("create: %v\n%s\n%s", err, out, manifest)
	}
}

// newNamespace makes a namespace. It is deleted with all its pods at the end of the test: if a
// kubelet stopped while it has pods, nothing would clean up after them.
func newNamespace(t *testing.T, name string) string {
	t.Helper()
	run(t, "", "create", "namespace", name)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := kubectl("", "--namespace", name, "get", "pods,networks,pod2s", "--output=wide")
			events, _ := kubectl("", "--namespace", name, "get", "events", "--sort-by=.metadata.creationTimestamp")
			t.Logf("objects and events in %s:\n%s\n%s", name, out, events)
		}
		// The controller removes a Network's finalizer once no pod has one of its addresses.
		for _, args := range [][]string{
			{"--namespace", name, "delete", "pod2s,pods", "--all", "--timeout=60s"},
			{"--namespace", name, "annotate", "networks.samplecrd.k8s.io", "--all", "samplecrd.k8s.io/allow-deletion=true"}, // the status may still count the pods
			{"--namespace", name, "delete", "networks.samplecrd.k8s.io", "--all", "--timeout=60s"},
			{"delete", "namespace", name, "--timeout=60s"},
		} {
			if out, err := kubectl("", args...); err != nil {
				t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	})
	eventually(t, "the default service account of "+name, func() (string, error) {
		_, err := kubectl("", "--namespace", name, "get", "serviceaccount", "default")
		return "", err
	})
	return name
}

// eventually polls until check returns "" and no error. After patience it fails with the last
// answer.
func eventually(t *testing.T, what string, check func() (string, error)) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		why, err := check()
		if why == "" && err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s; last: %s %v", what, patience, why, err)
		}
	}
}

// waitReady waits for the condition Ready, as a user would.
func waitReady(t *testing.T, namespace string, objects ...string) {
	t.Helper()
	run(t, namespace, append([]string{"wait", "--for=condition=Ready", "--timeout=" + patience.String()}, objects...)...)
}

// probe runs netprobe in a pod.
func probe(t *testing.T, namespace, pod string, args ...string) string {
	t.Helper()
	return run(t, namespace, append([]string{"exec", pod, "--", "/netprobe"}, args...)...)
}

// requireProbe waits until netprobe in a pod prints a text: a busy machine may lose or delay a packet.
func requireProbe(t *testing.T, namespace, pod, want string, args ...string) {
	t.Helper()
	eventually(t, pod+" sees "+want, func() (string, error) {
		if got := probe(t, namespace, pod, args...); got != want {
			return got, nil
		}
		return "", nil
	})
}

// pod is the part of a pod that tests use.
type pod struct {
	UID, Node string
	Published map[string]attachment.Address
}

// pods of a namespace that match a selector, by name.
func pods(t *testing.T, namespace, selector string) map[string]pod {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name, UID   string
				Annotations map[string]string
			}
			Spec struct{ NodeName string }
		}
	}
	text := run(t, namespace, "get", "pods", "--selector="+selector, "--output=json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	result := map[string]pod{}
	for _, item := range list.Items {
		published, err := attachment.ParseAddresses(item.Metadata.Annotations["samplecrd.k8s.io/addresses"])
		if err != nil {
			t.Fatalf("%s: %v", item.Metadata.Name, err)
		}
		result[item.Metadata.Name] = pod{UID: item.Metadata.UID, Node: item.Spec.NodeName, Published: published}
	}
	return result
}

// linesOf are the lines of a text with this prefix, sorted.
func linesOf(text, prefix string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// networks are two Networks with the same CIDR.
const networks = `
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: blue}
spec: {cidr: 192.168.0.0/16}
---
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: green}
spec: {cidr: 192.168.0.0/16}
---
`

// pod2 is a manifest of a Pod2 whose replicas run a netprobe server. more is added to the
// pod's spec.
func pod2(name string, replicas int, networks, more string) string {
	return fmt.Sprintf(`
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  networks: [%[3]s]
  template:
    metadata:
      labels: {app: %[1]s}
    spec:
      terminationGracePeriodSeconds: 1
      %[4]s
      containers:
      - name: probe
        image: netprobe:e2e
        imagePullPolicy: Never
        args: [serve]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
`, name, replicas, networks, more)
}

// definition is a NetworkAttachmentDefinition made by hand: the plugins bridge and static, on
// a bridge that reaches no other node. ipam is added to its ipam.
func definition(name, bridge, cniVersion, ipam string) string {
	return fmt.Sprintf(`
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: %[1]s}
spec:
  config: |
    {"cniVersion": "%[3]s", "name": "%[1]s", "plugins": [{"type": "bridge", "bridge": "%[2]s", "mtu": 1450,
     "isGateway": false, "ipMasq": false, "capabilities": {"ips": true, "mac": true},
     "ipam": {"type": "static"%[4]s}}]}
---
`, name, bridge, cniVersion, ipam)
}

// waitRunning waits for pods without a readiness probe.
func waitRunning(t *testing.T, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		run(t, namespace, "wait", "--for=jsonpath={.status.phase}=Running", "--timeout="+patience.String(), "pod/"+name)
	}
}
