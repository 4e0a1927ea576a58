//go:build integration

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Network in use stays, for each way of deletion. It takes no new pod, and is removed
// with its last pod.
func TestDeletingANetworkInUse(t *testing.T) {
	t.Parallel()
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		t.Run(cascade, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			startController(t, ns)
			create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 3600}`)+gatedPod("a", "blue")+gatedPod("b", "blue")+
				pod2("web", "replicas: 1, networks: [{name: blue}]"))
			waitReady(t, ns, "pod/a", "pod/b", "pod2/web")
			allowDeletion(t, ns)
			run(t, ns, "delete", "network", "blue", "--cascade="+cascade, "--wait=false")
			waitCondition(t, ns, "network/blue", "Ready", "False InUse: being deleted; waiting for the pods that hold its addresses: ")
			waitCondition(t, ns, "pod2/web", "Ready", "False NetworkTerminating: Network blue is being deleted")
			run(t, ns, "delete", "pod2", "web")
			create(t, ns, gatedPod("late", "blue"))
			waitCondition(t, ns, "pod/late", bound, `False NetworkTerminating: Network "blue" is being deleted and takes no new pod`)

			// One of two pods is deleted: the Network stays for the other.
			run(t, ns, "delete", "pod", "a")
			waitLedgerOf(t, ns, "b")
			waitCondition(t, ns, "network/blue", "Ready", "that hold its addresses: b")
			run(t, ns, "delete", "pod", "b")
			waitGone(t, ns, "networks,ab")
			waitCondition(t, ns, "pod/late", bound, "False NetworkNotFound")
		})
	}
}

// waitLedgerOf waits until the AddressBlocks have entries of exactly these pods.
func waitLedgerOf(t *testing.T, namespace, pods string) {
	t.Helper()
	eventually(t, "the AddressBlocks name "+pods, func(context.Context) (string, error) {
		if got := run(t, namespace, "get", "ab", "-o", "jsonpath={.items[*].spec.entries[*].pod}"); got != pods {
			return "it names " + got, nil
		}
		return "", nil
	})
}

// An AddressBlock that a user deletes stays because of its finalizer, and remains in use.
func TestDeletingABlockByHand(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+gatedPod("a", "blue"))
	waitReady(t, ns, "pod/a")
	run(t, ns, "delete", "ab", "--all", "--wait=false")
	create(t, ns, gatedPod("b", "blue"))
	waitAddresses(t, ns, "a: blue=10.0.0.2/24\nb: blue=10.0.0.3/24")
	run(t, ns, "delete", "pod", "a", "b")
	waitGone(t, ns, "ab")
	create(t, ns, gatedPod("c", "blue"))
	waitAddresses(t, ns, "c: blue=10.0.0.2/24")
}

// A user removes an AddressBlock with its finalizer. The controller writes back the
// addresses of live pods before it hands out any address, also if it was down at the
// removal.
func TestRemovingABlockByForce(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprintf("controller down %t", down), func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			c := startController(t, ns)
			create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+
				gatedPod("a", "blue=10.0.0.2")+gatedPod("b", "blue=10.0.0.3")+gatedPod("c", "blue=10.0.0.5"))
			waitReady(t, ns, "pod/a", "pod/b", "pod/c")
			if down {
				_ = c.stop(syscall.SIGKILL)
			}
			f := follow(t, ns, sharedAddress)
			run(t, ns, "delete", "ab", "--all", "--wait=false")
			run(t, ns, "patch", "ab", "blue-10.0.0.0", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			if down {
				run(t, ns, "delete", "pod", "b")
			}
			create(t, ns, gatedPod("d", "blue")+gatedPod("e", "blue"))
			want, left := "a: blue=10.0.0.2/24\nb: blue=10.0.0.3/24\nc: blue=10.0.0.5/24\n", "d e: blue=10.0.0.4/24 blue=10.0.0.6/24"
			if down {
				startController(t, ns)
				want, left = "a: blue=10.0.0.2/24\nc: blue=10.0.0.5/24\n", "d e: blue=10.0.0.3/24 blue=10.0.0.4/24"
			}
			waitReady(t, ns, "pod/d", "pod/e")
			got := addresses(t, ns)
			first, second := got["d"], got["e"]
			if first > second { // pods created within one second may be served in any order
				first, second = second, first
			}
			delete(got, "d")
			delete(got, "e")
			if got := render(got) + "\n" + "d e: " + first + " " + second; got != want+left {
				t.Errorf("got\n%s\nwant\n%s", got, want+left)
			}
			f.seenAll(t, ns)
			eventually(t, "the AddressBlocks agree with the pods", func(context.Context) (string, error) { return ledgerDiffers(t, ns), nil })
		})
	}
}

// A namespace is deleted with all its objects while the controller runs. The controller
// reports no failure.
func TestDeletingTheNamespace(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("tiny", `{cidr: 10.0.0.0/30}`)+
		pod2("web", `replicas: 12`+blue)+pod2("both", `replicas: 3, networks: [{name: blue}, {name: tiny}]`)+gatedPod("typo", "blue,,"))
	waitReady(t, ns, "pod2/web")
	waitCondition(t, ns, "network/tiny", "AddressesAvailable", "False")
	if err := kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func(ctx context.Context) (string, error) {
		namespace, err := kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return fmt.Sprintf("%+v", namespace.Status), err
	})
	if log := c.log.String(); strings.Contains(log, "Sync failed") {
		t.Errorf("the log has failures:\n%s", tail(log, 20))
	}
}

// A Network is its UID. A recreated Network with another CIDR gives waiting pods new
// addresses, and the old AddressBlocks are removed with the old pods.
func TestNetworkRecreated(t *testing.T) {
	t.Parallel()
	t.Run("after its pods are gone", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		startController(t, ns)
		create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 2`+blue))
		waitReady(t, ns, "pod2/web")
		allowDeletion(t, ns)
		run(t, ns, "delete", "network", "blue", "--wait=false")
		run(t, ns, "delete", "pod", "web-0", "web-1")
		run(t, ns, "wait", "--for=delete", "network/blue", "--timeout="+patience.String())
		create(t, ns, network("blue", `{cidr: 10.9.0.0/30}`))
		waitCondition(t, ns, "network/blue", "AddressesAvailable", "False")
		run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"cidr":"10.9.0.0/29"}}`)
		waitReady(t, ns, "pod2/web")
		requireHeld(t, ns, "10.9.0.2/30 10.9.0.4/29") // .3 was the broadcast address of the first CIDR
	})
	t.Run("by force, in use", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		startController(t, ns)
		create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+gatedPod("old", "blue"))
		waitReady(t, ns, "pod/old")
		f := follow(t, ns, sharedAddress)
		allowDeletion(t, ns)
		run(t, ns, "delete", "network", "blue", "--wait=false")
		run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		// The free addresses of the old AddressBlock belong to no Network until it is gone.
		create(t, ns, network("blue", `{cidr: 10.0.0.0/23, reuseDelaySeconds: 0}`)+gatedPod("new", "blue"))
		waitAddresses(t, ns, "new: blue=10.0.1.0/23\nold: blue=10.0.0.2/24")
		run(t, ns, "delete", "pod", "old")
		eventually(t, "the old AddressBlock is gone", func(context.Context) (string, error) {
			return strings.TrimPrefix(run(t, ns, "get", "ab", "-o", "name"), "addressblock.samplecrd.k8s.io/blue-10.0.1.0"), nil
		})
		create(t, ns, gatedPod("newer", "blue"))
		waitAddresses(t, ns, "new: blue=10.0.1.0/23\nnewer: blue=10.0.0.2/23")
		f.seenAll(t, ns)
	})
}

// requireHeld compares all held addresses, sorted.
func requireHeld(t *testing.T, namespace, want string) {
	t.Helper()
	held := map[string]string{}
	for _, h := range addresses(t, namespace) {
		_, address, _ := strings.Cut(h, "=")
		held[address] = ""
	}
	if got := strings.ReplaceAll(strings.ReplaceAll(render(held), ":\n", " "), ":", ""); got != want {
		t.Errorf("the held addresses are %s, want %s", got, want)
	}
}

// While the controller is down, gated pods wait and running pods are untouched. When it is
// back, it serves all of them.
func TestControllerDown(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 3`+blue))
	waitReady(t, ns, "pod2/web")
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	running, held := uids(t, ns), render(addresses(t, ns))
	create(t, ns, gatedPod("waits", "blue"))
	waitCondition(t, ns, "pod/waits", string(corev1.PodScheduled), "False SchedulingGated")
	run(t, ns, "delete", "pod", "web-2")
	startController(t, ns)
	waitReady(t, ns, "pod/waits")
	waitReady(t, ns, "pod2/web")
	waitAddresses(t, ns, "waits: blue=10.0.0.5/24\n"+held)
	if now := uids(t, ns); now["web-0"] != running["web-0"] || now["web-1"] != running["web-1"] || now["web-2"] == running["web-2"] {
		t.Errorf("pods were\n%s\nand are\n%s", render(running), render(now))
	}
}

// Uninstalling in the documented order leaves nothing, and nothing hangs. Not parallel: the
// test removes the CRDs of the whole cluster. Its controller serves all namespaces, like
// one that is uninstalled. One namespace has the remains of an earlier controller.
func TestUninstall(t *testing.T) {
	restoreCRDs(t)
	ns, other := newNamespace(t), newNamespace(t)
	earlier := startController(t, other)
	create(t, other, network("blue", `{cidr: 10.0.0.0/24}`)+pod2("db", `replicas: 2`+blue))
	waitReady(t, other, "pod2/db")
	_ = earlier.stop(syscall.SIGKILL)
	c := startController(t, "")
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("unused", `{cidr: 10.0.0.0/24}`)+pod2("web", `replicas: 3`+blue)+gatedPod("bare", "blue"))
	waitReady(t, ns, "pod2/web", "pod/bare")

	run(t, "", "delete", "pod2", "--all", "-A", "--timeout="+patience.String())
	run(t, ns, "delete", "pod", "bare", "--timeout="+patience.String())
	allowDeletion(t, ns)
	allowDeletion(t, other)
	run(t, "", "delete", "networks", "--all", "-A", "--timeout="+patience.String())
	eventually(t, "no AddressBlock remains", func(context.Context) (string, error) {
		return strings.TrimPrefix(run(t, "", "get", "ab", "-A"), "No resources found"), nil
	})
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	run(t, "", "delete", "-f", filepath.Join(root, "crd"), "--timeout="+patience.String())
}

// restoreCRDs restores the CRDs at the end of a test that removes them.
func restoreCRDs(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := applyCRDs(); err != nil {
			t.Error(err)
		}
	})
}
