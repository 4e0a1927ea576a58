//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exampleCommands returns the commands in the comment at the top of an example. They run in
// the namespace that they create.
func exampleCommands(t *testing.T, file string) (commands []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.ReplaceAll(string(content), "\\\n#", "")
	for _, command := range regexp.MustCompile(`(?m)^#   (kubectl .*)$`).FindAllStringSubmatch(joined, -1) {
		commands = append(commands, command[1])
	}
	return commands
}

// The test applies the worked example, with its file and the commands of its comment. A
// database's replicas keep names, PVCs, addresses and DNS records through a rolling update.
// example/database has its own tests of the init containers' scripts.
func TestDatabaseExample(t *testing.T) {
	t.Parallel()
	const ns = "database"
	sweepAfter(t, ns)
	startController(t, ns)
	commands := exampleCommands(t, "example/database/mysql.yaml")
	if len(commands) < 4 {
		t.Fatalf("found only %q", commands)
	}
	for _, command := range commands {
		command = strings.ReplaceAll(command, "shop", ns) // the tutorial uses the namespace shop
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	d := startDNS(t, ns)

	const claims = "data-mysql-0: Bound 10Gi mysql/0\ndata-mysql-1: Bound 10Gi mysql/1\ndata-mysql-2: Bound 10Gi mysql/2"
	waitClaims(t, ns, claims)
	held, identity, before := namesOf(t, ns), render(identities(t, ns)), uids(t, ns)
	if held["mysql-0"] != "10.2.0.10" || len(held) != 3 {
		t.Errorf("the replicas have the addresses\n%s\nwant three, and 10.2.0.10 for mysql-0", render(held))
	}
	requireDatabaseNames(t, d, held)

	const image = "mysql:8.4.6"
	if out, err := plugin(t, ns, "set", "image", "mysql", "*="+image); err != nil {
		t.Fatalf("set the image: %v\n%s", err, out)
	}
	eventually(t, "every replica is a new pod with the new image", func(ctx context.Context) (string, error) {
		// During the update, a name has its address, or none while the replica is away.
		for replica, address := range held {
			got, err := d.ask(ctx, "ip4", replica+".mysql-replication")
			if err != nil {
				return "", err
			}
			if got != address && got != noSuchHost {
				t.Fatalf("during the update %s has the address %s, before it had %s", replica, got, address)
			}
		}
		pods := listPods(t, ns)
		if len(pods) != len(held) {
			return fmt.Sprintf("there are %d pods", len(pods)), nil
		}
		for name, pod := range pods {
			if string(pod.UID) == before[name] || !available(pod) || pod.Spec.Containers[0].Image != image || pod.Spec.InitContainers[0].Image != image {
				return name + " is not", nil
			}
		}
		return "", nil
	})
	if out, err := plugin(t, ns, "status", "mysql", "--timeout="+patience.String()); err != nil {
		t.Fatalf("the update is not complete: %v\n%s", err, out)
	}
	waitClaims(t, ns, claims)
	if now := render(identities(t, ns)); now != identity {
		t.Errorf("the replicas were\n%s\nand are\n%s", identity, now)
	}
	requireDatabaseNames(t, d, held)
}

// identities returns the stable identity of each replica: names, PVC and volume, address.
func identities(t *testing.T, namespace string) map[string]string {
	t.Helper()
	claims := listClaims(t, namespace, func(c *corev1.PersistentVolumeClaim) string {
		return fmt.Sprintf("PVC %s (%s) on %s", c.Name, c.UID, c.Spec.VolumeName)
	})
	result := map[string]string{}
	for name, pod := range listPods(t, namespace) {
		result[name] = fmt.Sprintf("%s.%s, %s, %s on replication", pod.Spec.Hostname, pod.Spec.Subdomain, claims[mounted(pod, "data")], addressOn(pod, "replication"))
	}
	return result
}

// namesOf returns the replicas with their addresses on the Network.
func namesOf(t *testing.T, namespace string) map[string]string {
	t.Helper()
	result := map[string]string{}
	for name, pod := range listPods(t, namespace) {
		result[name] = addressOn(pod, "replication")
	}
	return result
}

// requireDatabaseNames waits until every name of the example resolves correctly: on the
// Network, on the cluster network, and for reads.
func requireDatabaseNames(t *testing.T, d *coreDNS, held map[string]string) {
	t.Helper()
	var onNetwork, onCluster []string
	for name, pod := range listPods(t, d.namespace) {
		d.wait("ip4", name+".mysql-replication", held[name])
		d.wait("ip4", name+".mysql", pod.Status.PodIP)
		onNetwork, onCluster = append(onNetwork, held[name]), append(onCluster, pod.Status.PodIP)
	}
	slices.Sort(onNetwork)
	slices.Sort(onCluster)
	d.wait("ip4", "mysql-replication", strings.Join(onNetwork, " "))
	d.wait("ip4", "mysql", strings.Join(onCluster, " "))
	d.wait("ip4", "mysql-read", run(t, d.namespace, "get", "service", "mysql-read", "-o", "jsonpath={.spec.clusterIP}"))
	eventually(t, "mysql-read resolves to every replica", func(ctx context.Context) (string, error) {
		list, err := kube.DiscoveryV1().EndpointSlices(d.namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=mysql-read"})
		if err != nil {
			return "", err
		}
		var behind []string
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				behind = append(behind, e.Addresses...)
			}
		}
		slices.Sort(behind)
		if !slices.Equal(behind, onCluster) {
			return fmt.Sprintf("it resolves to %s, but the replicas have %s", behind, onCluster), nil
		}
		return "", nil
	})
}
