package reconcile

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
)

func serviceCIDR(cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func nodeWith(podCIDR string, addresses ...string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{podCIDR}, ProviderID: "x"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, a := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Address: a})
	}
	return node
}

// The condition of a Network names the range of the cluster that it overlaps. The Network
// hands out no address.
func TestANetworkOverTheClusterBindsNobody(t *testing.T) {
	for _, row := range []struct {
		name   string
		object runtime.Object
		want   string
	}{
		{"ServiceCIDR", serviceCIDR("fd00::/108", "10.1.0.0/20"), "ServiceCIDR kubernetes (10.1.0.0/20)"},
		{"podCIDR", nodeWith("10.1.4.0/24"), "podCIDR of Node node-1 (10.1.4.0/24)"},
		{"address", nodeWith("10.9.0.0/24", "node-1", "fd00::1", "10.1.7.7"), "address of Node node-1 (10.1.7.7/32)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.object, newNetwork("blue new"), newPod("a gated on=blue"))
			calls := w.syncText(KindNetwork, "blue")
			if strings.Contains(calls, "addressblocks") || !strings.Contains(calls, "OverlapsCluster: spec.cidr overlaps "+row.want) {
				t.Errorf("calls\n%s", calls)
			}
			w.remove(row.object)
			w.catchUp()
			if calls := w.syncText(KindNetwork, "blue"); !strings.Contains(calls, "create addressblocks") {
				t.Errorf("after the overlap ended, calls\n%s", calls)
			}
		})
	}
}

func TestFlagsNameWhatTheClusterUses(t *testing.T) {
	w := newWorld(t, newNetwork("blue new"), newPod("a gated on=blue"))
	w.r.kinds.network.cluster.named = []network.ClusterRange{{Prefix: netip.MustParsePrefix("10.1.0.0/24"), Of: "--cluster-cidrs"}}
	if calls := w.syncText(KindNetwork, "blue"); !strings.Contains(calls, "spec.cidr overlaps --cluster-cidrs (10.1.0.0/24)") {
		t.Errorf("calls\n%s", calls)
	}
	w.catchUp()
	w.r.settings.AllowedOverlaps = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	if calls := w.syncText(KindNetwork, "blue"); !strings.Contains(calls, "create addressblocks") {
		t.Errorf("allowed, calls\n%s", calls)
	}
}

// Kubelets report all the time. Only a changed range wakes Networks, and only those that
// overlap it.
func TestWhichNetworksTheClusterConcerns(t *testing.T) {
	w := newWorld(t, newNetwork("blue 10.1.0.0/24"), newNetwork("green 10.2.0.0/24"))
	reported := nodeWith("10.1.0.0/16", "10.2.0.7")
	reported.Status.Conditions[0].Status = corev1.ConditionUnknown
	same(t, w.keysFor(nodeWith("10.1.0.0/16")), "AddressSlice kube-system/, Network blue")
	same(t, w.keysFor(nodeWith("10.3.0.0/16", "10.2.0.7", "no address")), "AddressSlice kube-system/, Network green")
	same(t, w.keysFor(serviceCIDR("10.0.0.0/8")), "Network blue, Network green")
	for _, row := range []struct {
		old, new any
		want     bool
	}{
		{nodeWith("10.1.0.0/16", "10.2.0.7"), reported, true},
		{nodeWith("10.1.0.0/16", "10.2.0.7"), nodeWith("10.1.0.0/16", "10.2.0.8"), false},
		{nodeWith("10.1.0.0/16"), nodeWith("10.2.0.0/16"), false},
		{serviceCIDR("10.1.0.0/16"), serviceCIDR("10.1.0.0/16", "fd00::/108"), false},
	} {
		if got := sameRanges(row.old, row.new); got != row.want {
			t.Errorf("%v and %v: %t", row.old, row.new, got)
		}
	}
}

// An overlap causes no repeated writes.
func TestAnOverlapIsWrittenOnce(t *testing.T) {
	w := newWorld(t, serviceCIDR("10.1.0.0/20"), newNetwork("blue new"), newPod("a gated on=blue"))
	w.syncText(KindNetwork, "blue")
	w.catchUp()
	w.happens(serviceCIDR("10.1.0.0/20"))
	same(t, w.syncText(KindNetwork, "blue"), "")
	same(t, stored[*v1.Network](w, "blue").Status.Conditions[0].Reason, "OverlapsCluster")
}

func TestSlimNodeKeepsItsRangesOnly(t *testing.T) {
	node := nodeWith("10.1.0.0/16", "10.2.0.7")
	node.ResourceVersion = "7"
	slim, err := SlimNode(node)
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "7"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.1.0.0/16"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: "10.2.0.7"}}},
	}
	if err != nil || !equality.Semantic.DeepEqual(slim, want) {
		t.Errorf("got %+v, %v", slim, err)
	}
}
