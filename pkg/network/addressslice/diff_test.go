package addressslice

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// blue is a State of Network blue with pods on the first few addresses, all on one node.
func blue(pods int, change ...func(*State)) State {
	n := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
	n.Spec.CIDR, n.Status.VNI, n.Status.Gateway = "10.0.0.0/16", 70000, "10.0.0.1"
	s := State{Namespace: "default", Name: "blue", Network: n, Locations: map[string]string{}}
	for i := range pods {
		s.Locations[address(i)] = "192.0.2.1"
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func address(i int) string {
	return netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(2 + i%250)}).String()
}

// carry makes the writes of a plan.
func carry(s *State, p Plan) {
	for _, d := range p.Delete {
		s.Slices = deleted(s.Slices, d.Name)
	}
	for _, u := range p.Update {
		s.Slices = append(deleted(s.Slices, u.Object.Name), u.Object)
	}
	for _, c := range p.Create {
		c.UID = types.UID("uid-of-" + c.Name)
		s.Slices = append(s.Slices, c)
	}
	slices.SortFunc(s.Slices, plan.ByName)
}

func deleted(slices []*v1.AddressSlice, name string) (rest []*v1.AddressSlice) {
	for _, s := range slices {
		if s.Name != name {
			rest = append(rest, s)
		}
	}
	return rest
}

// after is the State after the writes for it, and then after the change.
func after(s State, change func(*State)) State {
	carry(&s, Diff(s))
	change(&s)
	return s
}

func TestDiff(t *testing.T) {
	const properties = "  vni 70000 cidr 10.0.0.0/16 gateway 10.0.0.1 egress NAT mtu default\n"
	for name, tt := range map[string]struct {
		in   State
		want string
	}{
		"new":           {blue(0), "confirm the Network\ncreate AddressSlice blue-0\n" + properties},
		"without a VNI": {blue(1, func(s *State) { s.Network.Status.VNI = 0 }), ""},
		"no Network":    {blue(1, func(s *State) { s.Network = nil }), ""},
		"first pod":     {blue(1), "confirm the Network\ncreate AddressSlice blue-0\n" + properties + "  10.0.0.2 on 192.0.2.1\n"},
		"converged":     {after(blue(70), func(*State) {}), ""},
		"a pod moves":   {after(blue(1), func(s *State) { s.Locations["10.0.0.2"] = "192.0.2.9" }), "update AddressSlice blue-0 (version ): locations\n" + properties + "  10.0.0.2 on 192.0.2.9\n"},
		"a pod ends":    {after(blue(1), func(s *State) { s.Locations = nil }), "update AddressSlice blue-0 (version ): locations\n" + properties},
		"an unknown node": {after(blue(1), func(s *State) {
			s.Locations, s.Unlocated = nil, map[string]bool{"10.0.0.2": true}
		}), ""},
		"a pod ends, its address may stay": {after(blue(1), func(s *State) { s.Locations, s.RemovalsHeld = nil, time.Second }), "again in 1s\n"},
		"another pod starts": {after(blue(1), func(s *State) {
			s.Locations, s.RemovalsHeld = map[string]string{"10.0.0.3": "192.0.2.1"}, time.Second
		}), "update AddressSlice blue-0 (version ): locations\n" + properties + "  10.0.0.3 on 192.0.2.1\n"},
		"the CIDR grows": {after(blue(1), func(s *State) { s.Network.Spec.CIDR = "10.0.0.0/8" }),
			"update AddressSlice blue-0 (version ): overlay\n  vni 70000 cidr 10.0.0.0/8 gateway 10.0.0.1 egress NAT mtu default\n  10.0.0.2 on 192.0.2.1\n"},
		"another type": {after(blue(0), func(s *State) { s.Network.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI} }),
			"confirm the Network\ndelete AddressSlice blue-0 (uid uid-of-blue-0): its Network is not an Overlay\n"},
		"being deleted": {after(blue(1), func(s *State) {
			s.Network.DeletionTimestamp, s.Network.Finalizers, s.Locations = &metav1.Time{}, []string{v1.InUseFinalizer}, nil
		}), "update AddressSlice blue-0 (version ): locations\n" + properties},
		"being deleted, only the finalizer of others is left": {after(blue(1), func(s *State) {
			s.Network.DeletionTimestamp, s.Network.Finalizers, s.Locations = &metav1.Time{}, []string{"example.com/other"}, nil
		}), ""},
		"a former Network": {after(blue(0), func(s *State) { s.Network.UID = "u2" }),
			"confirm the Network\ndelete AddressSlice blue-0 (uid uid-of-blue-0): it does not belong to the Network\n"},
		"no Network, and no owner": {after(blue(0), func(s *State) { s.Network, s.Slices[0].OwnerReferences = nil, nil }),
			"confirm the Network\ndelete AddressSlice blue-0 (uid uid-of-blue-0): its Network is gone\n"},
		"the label of nodes":  {after(blue(0), func(s *State) { s.Slices[0].Labels[v1.NodesLabel] = "true" }), "update AddressSlice blue-0 (version ): labels\n" + properties},
		"nodes, another name": {State{Namespace: NodesNamespace, Slices: []*v1.AddressSlice{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}}, "delete AddressSlice x (uid ): it does not belong to the Network\n"},
		"no label":            {after(blue(0), func(s *State) { s.Slices[0].Labels = nil }), "update AddressSlice blue-0 (version ): labels\n" + properties},
		"no egress": {blue(0, func(s *State) { s.Network.Spec.Egress, s.Network.Spec.MTU = v1.EgressNone, ptr.To[int32](9000) }),
			"confirm the Network\ncreate AddressSlice blue-0\n  vni 70000 cidr 10.0.0.0/16 gateway 10.0.0.1 egress None mtu 9000\n"},
		"nodes": {State{Namespace: NodesNamespace, Locations: map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "192.0.2.1"}},
			"create AddressSlice nodes.0\n  192.0.2.1 on 192.0.2.1\n  2001:db8::1 on 192.0.2.1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Diff(tt.in).String(); got != tt.want {
				t.Errorf("got:\n%swant:\n%s", got, tt.want)
			}
		})
	}
}

// sizes of the slices that a plan writes.
func sizes(p Plan) string {
	var b strings.Builder
	for _, d := range p.Delete {
		fmt.Fprintf(&b, "-%s ", d.Name)
	}
	for _, u := range p.Update {
		fmt.Fprintf(&b, "%s:%d ", u.Object.Name, len(u.Object.Spec.Locations))
	}
	for _, c := range p.Create {
		fmt.Fprintf(&b, "+%s:%d ", c.Name, len(c.Spec.Locations))
	}
	return b.String()
}

// remove the addresses of the slice from its place-th address on.
func removeFrom(s *State, slice, keep int) {
	for a := range s.Slices[slice].Spec.Locations {
		if keep--; keep < 0 {
			delete(s.Locations, a)
		}
	}
}

func TestPacking(t *testing.T) {
	for name, tt := range map[string]struct {
		in   State
		want string
	}{
		"many pods":        {blue(120), "+blue-0:50 +blue-1:50 +blue-2:20 "},
		"one more":         {after(blue(120), func(s *State) { s.Locations["10.9.9.9"] = "192.0.2.1" }), "blue-2:21 "},
		"the fullest one":  {after(blue(120), func(s *State) { carryWithout(s, 1, 40); s.Locations["10.9.9.9"] = "192.0.2.1" }), "blue-1:41 "},
		"one that changes": {after(blue(120), func(s *State) { removeFrom(s, 0, 10); s.Locations["10.9.9.9"] = "192.0.2.1" }), "blue-0:11 "},
		"the one with past addresses": {after(blue(120), func(s *State) {
			removeFrom(s, 0, 30)
			removeFrom(s, 1, 20)
			s.Locations["10.9.9.9"], s.RemovalsHeld = "192.0.2.1", time.Second
		}), "blue-1:21 "},
		"one with room for all": {after(blue(120), func(s *State) {
			removeFrom(s, 1, 49)
			s.Locations["10.9.9.8"], s.Locations["10.9.9.9"], s.RemovalsHeld = "192.0.2.1", "192.0.2.1", time.Second
		}), "blue-2:22 "},
		"one with room for the rest": {after(blue(150), func(s *State) {
			carryWithout(s, 1, 19)
			carryWithout(s, 2, 30)
			for a := range s.Slices[2].Spec.Locations {
				s.Locations[a] = "192.0.2.9" // so this slice changes, and takes 20
			}
			removeFrom(s, 0, 40)
			for i := range 25 {
				s.Locations[fmt.Sprintf("10.9.9.%d", i)] = "192.0.2.1"
			}
			s.RemovalsHeld = time.Second
		}), "blue-0:45 blue-2:50 "},
		"an empty one":         {after(blue(120), func(s *State) { removeFrom(s, 2, 0) }), "-blue-2 "},
		"the first gets empty": {after(blue(120), func(s *State) { removeFrom(s, 0, 0) }), "blue-0:0 "},
		"being deleted":        {after(blue(70), func(s *State) { s.Slices[1].DeletionTimestamp = &metav1.Time{} }), "+blue-2:20 "},
		"in two slices":        {after(blue(70), func(s *State) { s.Slices[1].Spec.Locations["10.0.0.2"] = "192.0.2.9" }), "blue-1:20 "},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sizes(Diff(tt.in)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// carryWithout removes addresses of a slice, and writes that.
func carryWithout(s *State, slice, keep int) {
	removeFrom(s, slice, keep)
	carry(s, Diff(*s))
}

func TestNodeAddresses(t *testing.T) {
	node := &corev1.Node{}
	for _, a := range []string{"ExternalIP 203.0.113.1", "InternalIP 2001:db8::1", "Hostname n1", "InternalIP ::ffff:192.0.2.1", "InternalIP 192.0.2.1"} {
		kind, address, _ := strings.Cut(a, " ")
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	if got, want := fmt.Sprintf("%v %s", NodeAddresses(node), HostIP(node)), "[192.0.2.1 2001:db8::1 203.0.113.1] 192.0.2.1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRuns(t *testing.T) {
	entry := v1.AddressEntry{State: v1.AddressBound, Pod: "a", PodUID: "u"}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n1"}}
		change(p)
		return p
	}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":       {pod(func(*corev1.Pod) {}), true},
		"terminating":   {pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), true},
		"gone":          {nil, false},
		"another pod":   {pod(func(p *corev1.Pod) { p.UID = "v" }), false},
		"not scheduled": {pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }), false},
		"terminated":    {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
	} {
		if got := Runs(entry, tt.pod); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	entry.State = v1.AddressReserved
	if Runs(entry, pod(func(*corev1.Pod) {})) {
		t.Error("a reserved address counts as bound")
	}
}

// With 200 pods, the garbage collector deleted each slice of a Network that was deleted in the foreground.
func TestASliceDoesNotBlockTheDeletionOfItsNetwork(t *testing.T) {
	for _, slice := range Diff(blue(1)).Create {
		if owner := slice.OwnerReferences[0]; owner.BlockOwnerDeletion != nil {
			t.Errorf("the owner reference is %v", owner)
		}
	}
}
