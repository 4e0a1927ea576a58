//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

var networksResource = schema.GroupVersionResource{Group: "samplecrd.k8s.io", Version: "v1", Resource: "networks"}

const inUse = "pods hold 1 addresses of this Network, and 0 are reserved for replicas. After its deletion, a pod that restarts gets no address."

// delete sends a dry-run deletion. It returns the refusal, "" for none.
func (u *user) delete(t *testing.T, resource schema.GroupVersionResource, name string) string {
	t.Helper()
	return refusal(u.client.Resource(resource).Namespace(u.namespace).Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
}

// usedNetwork creates Network blue with one pod, starts its controller, and waits until the
// policies are in force.
func usedNetwork(t *testing.T) (ns string, c *controller) {
	t.Helper()
	ns = newNamespace(t)
	admissionPolicy(t, ns)
	c = startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("p", "blue"))
	waitReady(t, ns, "pod/p")
	eventually(t, "the policy is in force", func(context.Context) (string, error) {
		out, err := kubectl("-n", ns, "delete", "network", "blue", "--dry-run=server")
		if err == nil || !strings.Contains(out, inUse) {
			return "answered " + out, nil
		}
		return "", nil
	})
	return ns, c
}

// waitDeleting waits until Network blue is being deleted, or is gone.
func waitDeleting(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "Network blue is being deleted", func(context.Context) (string, error) {
		out, err := kubectl("-n", namespace, "get", "network", "blue", "--ignore-not-found", "-o", "jsonpath={.metadata.name} {.metadata.deletionTimestamp}")
		if strings.TrimSpace(out) == "blue" {
			return "the Network is not being deleted", err
		}
		return "", err
	})
}

// No user can delete a Network in use without permission, not even an administrator.
func TestANetworkInUseIsNotDeleted(t *testing.T) {
	t.Parallel()
	ns, _ := usedNetwork(t)
	create(t, ns, network("unused", `{cidr: 10.0.0.0/24}`))
	run(t, ns, "delete", "network", "unused")
	for _, cascade := range []string{"background", "foreground", "orphan"} {
		got := refused(t, ns, "", "delete", "network", "blue", "--cascade="+cascade)
		if want := inUse + " Delete the workloads first. To delete the Network anyway, allow it: kubectl annotate networks.samplecrd.k8s.io blue --namespace=" + ns + " samplecrd.k8s.io/allow-deletion=true"; !strings.Contains(got, want) {
			t.Errorf("--cascade=%s is refused with\n%s\nwant %q in it", cascade, got, want)
		}
	}
	err := dyn.Resource(networksResource).Namespace(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if !strings.Contains(refusal(err), inUse) {
		t.Errorf("a collection that includes the Network is deleted: %v", err)
	}
	binder := newUser(t, ns, "binder", "samplecrd.k8s.io", "networks", "delete", "samplecrd.k8s.io", "addressblocks", "bind")
	outcome(t, "by a user who may bind", binder.delete(t, networksResource, "blue"), inUse)
	run(t, ns, "annotate", "network", "blue", v1.AllowDeletionAnnotation+"=no")
	outcome(t, "with another value of the annotation", binder.delete(t, networksResource, "blue"), inUse)

	for _, collector := range []*user{
		knownUser(t, ns, "system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts", "system:serviceaccounts:kube-system"),
		newUser(t, ns, "system:kube-controller-manager", "samplecrd.k8s.io", "networks", "delete"),
	} {
		outcome(t, "by "+collector.name, collector.delete(t, networksResource, "blue"), "")
	}
	allowDeletion(t, ns)
	run(t, ns, "delete", "network", "blue", "--wait=false")
	run(t, ns, "annotate", "network", "blue", v1.AllowDeletionAnnotation+"-")
	outcome(t, "once it is being deleted", binder.delete(t, networksResource, "blue"), "")
	run(t, ns, "delete", "pod", "p")
	waitGone(t, ns, "networks,ab")
}

// While the controller is down, the status counts pods that are gone. An administrator can
// overrule it.
func TestAStaleCountCanBeOverruled(t *testing.T) {
	t.Parallel()
	ns, c := usedNetwork(t)
	if err := c.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	run(t, ns, "delete", "pod", "p")
	if got := refused(t, ns, "", "delete", "network", "blue"); !strings.Contains(got, inUse) {
		t.Errorf("refused with\n%s", got)
	}
	allowDeletion(t, ns)
	run(t, ns, "delete", "network", "blue", "--wait=false")
	startController(t, ns)
	waitGone(t, ns, "networks,ab")
}

// The policy does not hold up the deletion of a Network together with its owner.
func TestANetworkInUseIsDeletedWithItsOwner(t *testing.T) {
	t.Parallel()
	t.Run("an object, by the garbage collector", func(t *testing.T) {
		t.Parallel()
		ns, _ := usedNetwork(t)
		create(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n")
		uid := run(t, ns, "get", "configmap", "first", "-o", "jsonpath={.metadata.uid}")
		run(t, ns, "patch", "network", "blue", "--type=merge", "-p",
			fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"first","uid":%q}]}}`, uid))
		run(t, ns, "delete", "configmap", "first")
		waitDeleting(t, ns)
		run(t, ns, "delete", "pod", "p")
		waitGone(t, ns, "networks,ab")
	})
	t.Run("its namespace", func(t *testing.T) {
		t.Parallel()
		ns, c := usedNetwork(t)
		if err := c.stop(syscall.SIGTERM); err != nil { // otherwise the Network would soon not be in use any more
			t.Error(err)
		}
		run(t, "", "delete", "namespace", ns, "--wait=false")
		waitDeleting(t, ns)
		startController(t, ns)
		run(t, "", "wait", "--for=delete", "namespace/"+ns, "--timeout="+patience.String())
	})
}
