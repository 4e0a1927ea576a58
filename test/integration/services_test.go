//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	portsPatch    = `{"spec":{"ports":[{"port":80}]}}`
	webService    = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web-blue, labels: {%s}}\nspec: {clusterIP: None, ports: [{port: 80}]}\n"
	labelsOfNames = "samplecrd.k8s.io/pod2: web, samplecrd.k8s.io/network: blue"
)

// editor creates a user with Kubernetes' role edit, and the rules of another Role.
func editor(t *testing.T, namespace, name string, rules ...string) {
	t.Helper()
	newUser(t, namespace, name, append(rules, "", "services", "get")...)
	run(t, namespace, "create", "rolebinding", name+"-edits", "--clusterrole=edit", "--user="+name)
	eventually(t, name+" may edit", func(context.Context) (string, error) {
		out, err := kubectl("-n", namespace, "auth", "can-i", "patch", "services", "--as="+name)
		if strings.TrimSpace(out) == "yes" {
			return "", nil
		}
		return out, err
	})
}

// waitClosed waits until the replica has its name, and requires that its EndpointSlice
// belongs to a Service of the Pod2 without ports.
func waitClosed(t *testing.T, namespace, what string) {
	t.Helper()
	owner := getPod2(t, namespace, "web")
	eventually(t, what+": the names are back", func(ctx context.Context) (string, error) {
		service, err := kube.CoreV1().Services(namespace).Get(ctx, "web-blue", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if !metav1.IsControlledBy(service, owner) || len(service.Spec.Ports) > 0 || service.Labels["samplecrd.k8s.io/pod2"] != "web" {
			return fmt.Sprintf("the Service belongs to %v, with labels %v and ports %v", service.OwnerReferences, service.Labels, service.Spec.Ports), nil
		}
		return slicesOf(ctx, namespace, 1)
	})
}

// slicesOf returns "" if the Service has as many EndpointSlices as wanted, else their
// number.
func slicesOf(ctx context.Context, namespace string, want int) (string, error) {
	list, err := kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web-blue"})
	if err != nil || len(list.Items) == want {
		return "", err
	}
	return fmt.Sprintf("there are %d EndpointSlices, want %d", len(list.Items), want), nil
}

// CVE-2021-25740 without the policy, or for a user who passes it. Whichever change a user
// makes to the Service, it has no ports when it has EndpointSlices again. It has no
// EndpointSlices while it is not the Pod2's.
func TestAServiceWithPortsHasNoSlices(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	const user = "passes"
	editor(t, ns, user, "samplecrd.k8s.io", "addressblocks", "bind")
	as := func(stdin string, args ...string) {
		t.Helper()
		if out, err := kubectlWith(t.Context(), stdin, append([]string{"-n", ns, "--as=" + user}, args...)...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	as(fmt.Sprintf(webService, labelsOfNames), "create", "-f", "-")
	create(t, ns, network("blue", `{cidr: 192.168.0.0/24}`)+pod2("web", `replicas: 1`+blue))
	waitClosed(t, ns, "created first")
	as("", "patch", "service", "web-blue", "--type=merge", "-p", portsPatch)
	waitClosed(t, ns, "ports")
	waitCondition(t, ns, "pod2/web", "DNSPublished", "True Published")
	as("", "patch", "service", "web-blue", "--type=merge", "-p", `{"metadata":{"labels":null}}`)
	as("", "patch", "service", "web-blue", "--type=merge", "-p", portsPatch)
	waitClosed(t, ns, "no labels, and then ports")
	as("", "patch", "service", "web-blue", "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`)
	as("", "patch", "service", "web-blue", "--type=merge", "-p", portsPatch)
	waitClosed(t, ns, "no owner, and then ports")
	as("", "patch", "service", "web-blue", "--type=merge", "-p", `{"metadata":{"labels":null,"ownerReferences":null},"spec":{"ports":[{"port":80}]}}`)
	eventually(t, "a Service of the user has no EndpointSlices", func(ctx context.Context) (string, error) { return slicesOf(ctx, ns, 0) })
	waitCondition(t, ns, "pod2/web", "DNSPublished", "False NameTaken")
	as("", "delete", "service", "web-blue")
	waitClosed(t, ns, "deleted")
	as("", "delete", "service", "web-blue")
	if out, err := kubectlWith(t.Context(), fmt.Sprintf(webService, ""), "-n", ns, "--as="+user, "create", "-f", "-"); err != nil && !strings.Contains(out, "AlreadyExists") {
		t.Fatalf("create the Service again: %v\n%s", err, out)
	} else if err == nil {
		eventually(t, "a recreated Service has no EndpointSlices", func(ctx context.Context) (string, error) { return slicesOf(ctx, ns, 0) })
		waitCondition(t, ns, "pod2/web", "DNSPublished", "False NameTaken")
		as("", "delete", "service", "web-blue")
	}
	waitClosed(t, ns, "deleted and recreated")
	run(t, ns, "delete", "pod2", "web", "--cascade=orphan")
	eventually(t, "an orphaned Service has no EndpointSlices", func(ctx context.Context) (string, error) { return slicesOf(ctx, ns, 0) })
}

// The policy refuses all of these changes to a user with the role edit. Everything that
// works without the policy still works.
func TestOnlyTheControllerWritesServicesOfPod2s(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	const user, refusedBy = "edits", "pod2-services"
	editor(t, ns, user)
	create(t, ns, network("blue", `{cidr: 192.168.0.0/24}`)+pod2("web", `replicas: 1`+blue)+fmt.Sprintf(strings.ReplaceAll(webService, "web-blue", "mine"), ""))
	waitClosed(t, ns, "created")
	eventually(t, refusedBy+" is in force", func(context.Context) (string, error) {
		out, _ := kubectl("-n", ns, "--as="+user, "patch", "service", "web-blue", "--type=merge", "-p", portsPatch, "--dry-run=server")
		if strings.Contains(out, refusedBy) {
			return "", nil
		}
		return out, nil
	})
	uid := string(serviceOf(t, ns).UID)
	for _, c := range []struct {
		what, want string
		args       []string
	}{
		{"ports", refusedBy, []string{"patch", "service", "web-blue", "--type=merge", "-p", portsPatch}},
		{"owner removed", refusedBy, []string{"patch", "service", "web-blue", "--type=merge", "-p", `{"metadata":{"ownerReferences":null}}`}},
		{"controller of the Service removed", refusedBy, []string{"patch", "service", "web-blue", "--type=json", "-p", `[{"op":"remove","path":"/metadata/ownerReferences/0/controller"}]`}},
		{"deletion", refusedBy, []string{"delete", "service", "web-blue"}},
		{"deletion of all", refusedBy, []string{"delete", "service", "--all"}},
		{"an annotation", "", []string{"annotate", "service", "web-blue", "example.com/note=x"}},
		{"labels removed", "", []string{"patch", "service", "web-blue", "--type=merge", "-p", `{"metadata":{"labels":null}}`}},
		{"ports, while the controller does not see it", refusedBy, []string{"patch", "service", "web-blue", "--type=merge", "-p", portsPatch}},
	} {
		out, err := kubectl(append([]string{"-n", ns, "--as=" + user}, c.args...)...)
		if err == nil {
			out = ""
		}
		outcome(t, c.what, out, c.want)
	}
	if now := string(serviceOf(t, ns).UID); now != uid {
		t.Errorf("the Service was %s and is %s", uid, now)
	}
	waitClosed(t, ns, "without labels for a while")
	run(t, ns, "--as="+user, "delete", "pod2", "web")
	waitGone(t, ns, "services,endpointslices")
}

func serviceOf(t *testing.T, namespace string) *corev1.Service {
	t.Helper()
	service, err := kube.CoreV1().Services(namespace).Get(t.Context(), "web-blue", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service
}
