//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/test/spec"
)

// Each replica has a name on each Network, in both families. Names without a replica do not
// exist.
func TestReplicasHaveNames(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	d := startDNS(t, ns)
	create(t, ns, network("blue", `{cidr: 192.168.0.0/16}`)+network("six", `{cidr: "fd00:10::/64"}`)+
		pod2("web", `replicas: 3, networks: [{name: blue, addresses: [192.168.1.10]}, {name: six}]`))
	waitReady(t, ns, "pod2/web")
	d.wait("ip4", "web-0.web-blue", "192.168.1.10")
	for name, pod := range listPods(t, ns) {
		d.wait("ip4", name+".web-blue", addressOn(pod, "blue"))
		d.wait("ip6", name+".web-six", addressOn(pod, "six"))
	}
	for network, name := range map[string]string{"ip4": "web-0.web-six", "ip6": "web-0.web-blue"} {
		d.wait(network, name, noSuchHost)
	}
	for _, name := range []string{"web-3.web-blue", "web-00.web-blue", "web-0.web-green", "web-0.web"} {
		d.wait("ip4", name, noSuchHost)
	}
	d.wait("ip4", "web-blue", strings.Join(addressesOn(t, ns, "blue"), " "))
	waitCondition(t, ns, "pod2/web", "DNSPublished", "True Published: each replica has a DNS name for each of its addresses: <replica>.web-blue, <replica>.web-six")

	run(t, ns, "scale", "pod2", "web", "--replicas=1")
	d.wait("ip4", "web-1.web-blue", noSuchHost)
	d.wait("ip4", "web-blue", "192.168.1.10")
	run(t, ns, "delete", "pod2", "web")
	d.wait("ip4", "web-0.web-blue", noSuchHost)
	waitGone(t, ns, "services,endpointslices")
}

func addressesOn(t *testing.T, namespace, network string) (all []string) {
	t.Helper()
	for _, pod := range listPods(t, namespace) {
		all = append(all, addressOn(pod, network))
	}
	slices.Sort(all)
	return all
}

// waitNames waits until no write remains for the names of the namespace's Pod2s. The
// controller writes frequent changes once a second.
func waitNames(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "all names are written", func(ctx context.Context) (string, error) {
		pod2s, err := sample.SamplecrdV1().Pod2s(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		services, err := kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		slices, err := kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for i := range pod2s.Items {
			have := &spec.Cluster{Pods: pointers(pods.Items), Services: pointers(services.Items), EndpointSlices: pointers(slices.Items)}
			if why := spec.NamesDone(have, &pod2s.Items[i]); why != "" {
				return pod2s.Items[i].Name + ": " + why, nil
			}
		}
		return "", nil
	})
}

func pointers[T any](items []T) (all []*T) {
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}

// requireNames requires that the EndpointSlices of a Service have each name once, and
// exactly the addresses that live pods publish on blue. It returns their number.
func requireNames(t *testing.T, namespace, service string) int {
	t.Helper()
	list, err := kube.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
	if err != nil {
		t.Fatal(err)
	}
	named, published := map[string]string{}, map[string]string{}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			named[*e.Hostname] += strings.Join(e.Addresses, " ")
		}
	}
	for name, pod := range listPods(t, namespace) {
		published[name] = addressOn(pod, "blue")
	}
	if got, want := render(named), render(published); got != want {
		t.Errorf("the EndpointSlices of %s have\n%s\npods publish\n%s", service, got, want)
	}
	return len(named)
}

// A name has its address for as long as the pod lives: before it is scheduled, while it
// terminates, and again after it came back.
func TestNamesOfPodsThatAreNotReady(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	d := startDNS(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 2`+blue)+strings.Replace(
		pod2("nowhere", `replicas: 1`+blue), "spec: {containers", "spec: {nodeSelector: {example.com/none: here}, containers", 1))
	waitCondition(t, ns, "pod/nowhere-0", "PodScheduled", "False Unschedulable")
	d.wait("ip4", "nowhere-0.nowhere-blue", addressOn(listPods(t, ns)["nowhere-0"], "blue"))

	waitReady(t, ns, "pod2/web")
	first, before := addressOn(listPods(t, ns)["web-0"], "blue"), uids(t, ns)
	hold(t, ns, "web-0")
	run(t, ns, "delete", "pod", "web-0", "--wait=false")
	waitEndpoint(t, ns, "web-blue-0", "web-0", "true true true")
	d.wait("ip4", "web-0.web-blue", first)
	release(t, ns, "web-0")
	eventually(t, "web-0 is a new pod", func(context.Context) (string, error) {
		if after := uids(t, ns)["web-0"]; after == "" || after == before["web-0"] {
			return "it is " + after, nil
		}
		return "", nil
	})
	waitEndpoint(t, ns, "web-blue-0", "web-0", "true true false")
	d.wait("ip4", "web-0.web-blue", first)
	if got := uids(t, ns)["web-1"]; got != before["web-1"] {
		t.Errorf("web-1 was replaced, too: %s", got)
	}
}

// waitEndpoint waits until an endpoint is "<ready> <serving> <terminating>".
func waitEndpoint(t *testing.T, namespace, slice, pod, want string) {
	t.Helper()
	eventually(t, "the endpoint of "+pod, func(context.Context) (string, error) {
		got, err := kubectl("-n", namespace, "get", "endpointslice", slice, "-o", fmt.Sprintf(
			`jsonpath={range .endpoints[?(@.hostname==%q)]}{.conditions.ready} {.conditions.serving} {.conditions.terminating}{end}`, pod))
		if got == want {
			return "", err
		}
		return fmt.Sprintf("it is %q, want %q", got, want), err
	})
}

// The controller reports another owner's Service and does not change it. When that Service
// is deleted, the controller creates its own. Names on the other Network do not wait.
func TestAForeignServiceIsLeftAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	d := startDNS(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.1.0.0/24}`)+`---
apiVersion: v1
kind: Service
metadata: {name: web-blue}
spec: {clusterIP: 10.96.7.7, ports: [{port: 80}]}
`)
	foreign := run(t, ns, "get", "service", "web-blue", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}")
	create(t, ns, pod2("web", `replicas: 1, networks: [{name: blue}, {name: green}]`))
	const taken = "NameTaken: Service web-blue already exists and has no controller: delete it so that replicas can have DNS names on Network blue"
	waitCondition(t, ns, "pod2/web", "DNSPublished", "False "+taken)
	eventually(t, "the event", func(context.Context) (string, error) {
		got, err := kubectl("-n", ns, "get", "events", "--field-selector=involvedObject.name=web,reason=NameTaken", "-o", "jsonpath={range .items[*]}{.type} {.reason}: {.message}{end}")
		if got != "Warning "+taken {
			return "got " + got, err
		}
		return "", err
	})
	waitReady(t, ns, "pod2/web")
	d.wait("ip4", "web-0.web-green", "10.1.0.2")
	d.wait("ip4", "web-blue", "10.96.7.7")
	if got := run(t, ns, "get", "service", "web-blue", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"); got != foreign {
		t.Errorf("the Service was %s and is %s", foreign, got)
	}
	if got := run(t, ns, "get", "endpointslices", "-l", "kubernetes.io/service-name=web-blue", "-o", "name"); got != "" {
		t.Errorf("the Service has endpoints: %s", got)
	}
	run(t, ns, "delete", "service", "web-blue")
	d.wait("ip4", "web-0.web-blue", "10.0.0.2")
	waitCondition(t, ns, "pod2/web", "DNSPublished", "True Published")
}

// The controller repairs drift, and deletes objects that are not wanted any more.
func TestNamesFollowThePod2(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	d := startDNS(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.1.0.0/24}`)+
		pod2("web", `replicas: 1, networks: [{name: blue}, {name: green}]`))
	d.wait("ip4", "web-0.web-blue", "10.0.0.2")
	d.wait("ip4", "web-0.web-green", "10.1.0.2")
	run(t, ns, "patch", "service", "web-blue", "--type=merge", "-p", `{"spec":{"selector":{"app":"x"},"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"],"publishNotReadyAddresses":false},"metadata":{"labels":{"team":"net"}}}`)
	eventually(t, "the Service is repaired", func(context.Context) (string, error) {
		got, err := kubectl("-n", ns, "get", "service", "web-blue", "-o", "jsonpath={.spec.selector} {.spec.publishNotReadyAddresses} {.metadata.labels.team}")
		if got = strings.TrimSpace(got); got != "true net" {
			return "got " + got, err
		}
		return "", err
	})
	run(t, ns, "delete", "--ignore-not-found", "service/web-blue", "endpointslice/web-blue-0") // the controller may delete the slice first
	eventually(t, "both exist again", func(context.Context) (string, error) {
		_, err := kubectl("-n", ns, "get", "service/web-blue", "endpointslice/web-blue-0")
		return "", err
	})
	d.wait("ip4", "web-0.web-blue", "10.0.0.2")
	patchPod2(t, ns, "web", `{"spec":{"networks":[{"name":"blue"}]}}`)
	run(t, ns, "wait", "--for=delete", "service/web-green", "endpointslice/web-green-0", "--timeout="+patience.String())
	d.wait("ip4", "web-0.web-blue", "10.0.0.2")
	long := strings.Repeat("n", 60)
	create(t, ns, network(long, `{cidr: 10.2.0.0/24}`))
	patchPod2(t, ns, "web", fmt.Sprintf(`{"spec":{"networks":[{"name":"blue"},{"name":%q}]}}`, long))
	waitCondition(t, ns, "pod2/web", "DNSPublished", "False InvalidServiceName: Network "+long+" needs a Service with the name web-"+long)
	waitReady(t, ns, "pod2/web")
	d.wait("ip4", "web-0.web-blue", "10.0.0.2")
}

// A replica that stays on a removed Network of the spec keeps its name there as long as it
// exists. The Service is deleted with the last of these replicas.
func TestNamesStayUntilTheReplicaLeaves(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	d := startDNS(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.1.0.0/24}`)+
		pod2("web", `replicas: 2, updateStrategy: {type: OnDelete}`+blue))
	waitReady(t, ns, "pod2/web")
	first := addressOn(listPods(t, ns)["web-0"], "blue")
	d.wait("ip4", "web-0.web-blue", first)
	service := run(t, ns, "get", "service", "web-blue", "-o", "jsonpath={.metadata.uid}")

	patchPod2(t, ns, "web", `{"spec":{"networks":[{"name":"green"}]}}`)
	run(t, ns, "delete", "pod", "web-1")
	d.wait("ip4", "web-1.web-green", "10.1.0.2")
	d.wait("ip4", "web-1.web-blue", noSuchHost)
	waitCondition(t, ns, "pod2/web", "DNSPublished", "True Published: each replica has a DNS name for each of its addresses: <replica>.web-blue (until the last replica has left Network blue), <replica>.web-green")
	d.wait("ip4", "web-0.web-blue", first)
	if now := run(t, ns, "get", "service", "web-blue", "-o", "jsonpath={.metadata.uid}"); now != service {
		t.Errorf("the Service was %s and is %s", service, now)
	}

	run(t, ns, "delete", "pod", "web-0")
	run(t, ns, "wait", "--for=delete", "service/web-blue", "endpointslice/web-blue-0", "--timeout="+patience.String())
	d.wait("ip4", "web-0.web-green", "10.1.0.3")
	waitCondition(t, ns, "pod2/web", "DNSPublished", "True Published: each replica has a DNS name for each of its addresses: <replica>.web-green")
}

// Hostname and subdomain serve a user's own headless Service, whose EndpointSlices
// Kubernetes creates.
func TestServiceNameGivesNames(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	d := startDNS(t, ns)
	create(t, ns, `---
apiVersion: v1
kind: Service
metadata: {name: peers}
spec: {clusterIP: None, selector: {samplecrd.k8s.io/pod2: web}}
`+pod2("web", `replicas: 2, serviceName: peers`))
	waitReady(t, ns, "pod2/web")
	for name, pod := range listPods(t, ns) {
		d.wait("ip4", name+".peers", pod.Status.PodIP)
	}
}
