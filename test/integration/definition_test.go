//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// waitDefinition waits until Multus would read this from a Network's
// NetworkAttachmentDefinition.
func waitDefinition(t *testing.T, namespace, name, want string) {
	t.Helper()
	eventually(t, "definition "+name, func(context.Context) (string, error) {
		got, err := kubectl("-n", namespace, "get", "net-attach-def", name, "-o", "jsonpath={.spec.config}")
		if err != nil {
			return got, nil //nolint:nilerr // the error is not final
		}
		if got != want {
			return "got\n" + got + "\nwant\n" + want, nil
		}
		return "", nil
	})
}

// vnis returns the VNIs of a namespace's Networks, "blue=1180673" in each line.
func vnis(t *testing.T, namespace string) string {
	t.Helper()
	list, err := sample.SamplecrdV1().VNIs().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]string{}
	for _, vni := range list.Items {
		if vni.Spec.Network.Namespace == namespace {
			held[vni.Spec.Network.Name] += vni.Name
		}
	}
	return render(held)
}

func overlayConfig(namespace, name string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"%s.%s","plugins":[{"type":"pod2-cni","capabilities":{"ips":true,"mac":true}}]}`, namespace, name)
}

const attachable = "Attachable"

func TestNetworkHasADefinition(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.0.0.0/24, mtu: 8950}`))
	waitDefinition(t, ns, "blue", overlayConfig(ns, "blue"))
	waitDefinition(t, ns, "green", overlayConfig(ns, "green"))
	waitCondition(t, ns, "network/blue", attachable, "True Defined: pods are attached by NetworkAttachmentDefinition blue")
	held := vnis(t, ns)

	run(t, ns, "patch", "net-attach-def", "blue", "--type=merge", "-p", `{"spec":{"config":"{}"}}`)
	waitDefinition(t, ns, "blue", overlayConfig(ns, "blue"))
	run(t, ns, "delete", "net-attach-def", "blue")
	waitDefinition(t, ns, "blue", overlayConfig(ns, "blue"))
	if now := vnis(t, ns); now != held || strings.Count(now, "\n") != 1 {
		t.Errorf("VNIs were\n%s\nand are\n%s", held, now)
	}

	run(t, ns, "delete", "network", "green")
	waitGoneVNI(t, ns, "green")
}

func waitGoneVNI(t *testing.T, namespace, network string) {
	t.Helper()
	eventually(t, "the VNI of "+network+" is released", func(context.Context) (string, error) {
		if now := vnis(t, namespace); strings.Contains(now, network) {
			return now, nil
		}
		return "", nil
	})
}

func TestAForeignDefinitionIsLeftAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: blue}\nspec: {config: theirs}\n"+
		network("blue", `{cidr: 10.0.0.0/24}`))
	waitCondition(t, ns, "network/blue", attachable, "False NameTaken: NetworkAttachmentDefinition blue exists but does not belong to this Network")
	waitDefinition(t, ns, "blue", "theirs")
	run(t, ns, "delete", "net-attach-def", "blue")
	waitDefinition(t, ns, "blue", overlayConfig(ns, "blue"))
}

// The VNI of a Network is restored if a user deletes it, or if another Network took it
// meanwhile.
func TestVNIsComeBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`))
	waitDefinition(t, ns, "blue", overlayConfig(ns, "blue"))
	held := vnis(t, ns)
	_, number, _ := strings.Cut(held, ": ")
	run(t, ns, "delete", "vni", number)
	eventually(t, "the VNI is restored", func(context.Context) (string, error) {
		if now := vnis(t, ns); now != held {
			return "got " + now + ", want " + held, nil
		}
		return "", nil
	})

	if err := c.stop(syscall.SIGKILL); err == nil {
		t.Fatal("a killed controller ended without an error")
	}
	create(t, ns, network("red", `{cidr: 10.0.0.0/24}`))
	red, err := sample.SamplecrdV1().Networks(ns).Get(t.Context(), "red", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, ns, "delete", "vni", number)
	taken := &v1.VNI{ObjectMeta: metav1.ObjectMeta{Name: number}, Spec: v1.VNISpec{Network: v1.NetworkReference{Namespace: ns, Name: "red", UID: red.UID}}}
	if _, err := sample.SamplecrdV1().VNIs().Create(t.Context(), taken, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	startController(t, ns)
	waitDefinition(t, ns, "red", overlayConfig(ns, "red"))
	eventually(t, "each Network has its own VNI", func(context.Context) (string, error) {
		now := vnis(t, ns)
		if !strings.Contains(now, "red: "+number) || !strings.Contains(now, "blue") {
			return "got " + now, nil
		}
		return "", nil
	})
	waitDefinition(t, ns, "blue", overlayConfig(ns, "blue"))
}

func TestVNIRules(t *testing.T) {
	t.Parallel()
	const spec = `"apiVersion":"samplecrd.k8s.io/v1","kind":"VNI","spec":{"network":{"namespace":"a","name":"b","uid":"c"}}`
	for _, name := range []string{"0", "007", "16777216", "blue"} {
		out, err := kubectlWith(t.Context(), `{`+spec+`,"metadata":{"name":"`+name+`"}}`, "create", "-f", "-")
		if err == nil || !strings.Contains(out, "the name of a VNI must be a number from 1 to 16777215") {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}

// A plugin runs as root on nodes, so a user needs a right to define one.
func TestOnlyWhoMayDefineWritesAConfig(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	validationPolicies(t, ns)
	startController(t, ns)
	raw := network("raw", `{cidr: 10.0.0.0/24, attachment: {type: CNI, config: '{"type":"macvlan","master":"eth0"}'}}`)
	const refused = "you need the verb create on network-attachment-definitions"
	plain := newUser(t, ns, "plain")
	outcome(t, "with the role edit", plain.create(t, raw), refused)
	outcome(t, "without a config", plain.create(t, network("plain", `{cidr: 10.0.0.0/24}`)), "")
	able := newUser(t, ns, "able", "samplecrd.k8s.io", "networks", "create", "k8s.cni.cncf.io", "network-attachment-definitions", "create")
	outcome(t, "with the right to define", able.create(t, raw), "")
	create(t, ns, raw)
	waitDefinition(t, ns, "raw", fmt.Sprintf(`{"capabilities":{"ips":true,"mac":true},"cniVersion":"1.0.0","ipam":{"type":"static"},"master":"eth0","name":"%s.raw","type":"macvlan"}`, ns))
}
