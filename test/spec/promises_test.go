package spec

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// podOf reads a pod: its name, then its properties.
//
//	web-0 has=10.0.0.2/29 ready=60 of=web asks=blue=10.0.0.3 gated failed terminating image=old labels hash=x claim=data
func podOf(text string) *corev1.Pod {
	words := strings.Fields(text)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: words[0], UID: types.UID("u-" + words[0]), Annotations: map[string]string{}, Labels: map[string]string{}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "new"}}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "has":
			pod.Annotations[v1.AddressesAnnotation] = fmt.Sprintf(`{"blue":{"address":%q}}`, value)
		case "asks":
			pod.Annotations[v1.NetworksAnnotation] = value
		case "of":
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "Pod2", Name: value, UID: types.UID("u-" + value), Controller: ptr.To(true)}}
		case "by":
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: value, Name: "x", UID: "u-x", Controller: ptr.To(true)}}
		case "injected":
			pod.Annotations[v1.SidecarsAnnotation] = value
		case "uid":
			pod.UID = types.UID(value)
		case "gated":
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
		case "failed":
			pod.Status.Phase = corev1.PodFailed
		case "terminating":
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "ready":
			age, _ := time.ParseDuration(value + "s")
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-age))})
		case "waits":
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: v1.ConditionAddressesBound, Status: corev1.ConditionFalse, Reason: value})
		case "image":
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: value}}
		case "hash":
			pod.Labels[v1.PodTemplateHashLabel] = value
		case "labels":
			pod.Labels[v1.ManagedLabel], pod.Labels[v1.Pod2Label], pod.Labels[v1.PodIndexLabel] = "true", "web", pod.Name[len("web-"):]
		case "claim":
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: value}}}}
		default:
			panic("unknown property: " + word)
		}
	}
	return pod
}

func podsOf(texts ...string) (pods []*corev1.Pod) {
	for _, text := range texts {
		pods = append(pods, podOf(text))
	}
	return pods
}

// blockOf reads the AddressBlock of 10.0.0.0/24: "10.0.0.2 Bound web-0" and so on, 30
// seconds ago.
func blockOf(entries ...string) *v1.AddressBlock {
	b := &v1.AddressBlock{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-10.0.0.0", Finalizers: []string{v1.InUseFinalizer}, OwnerReferences: []metav1.OwnerReference{{Kind: "Network", Name: "blue", UID: "n", Controller: ptr.To(true)}}},
		Spec:       v1.AddressBlockSpec{Network: "blue", NetworkUID: "n", CIDR: "10.0.0.0/24"},
	}
	for _, text := range entries {
		f := strings.Fields(text)
		e := v1.AddressEntry{Address: f[0], State: v1.AddressState(f[1]), Pod: f[2], Since: metav1.NewTime(now.Add(-30 * time.Second))}
		if e.State == v1.AddressBound {
			e.PodUID = types.UID("u-" + f[2])
		}
		if len(f) > 3 {
			e.Owner = v1.AddressOwner{Kind: "Pod2", Name: f[3]}
		}
		b.Spec.Entries = append(b.Spec.Entries, e)
	}
	return b
}

func networkOf(cidr string) *v1.Network {
	return &v1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "n", Finalizers: []string{v1.InUseFinalizer}, Annotations: map[string]string{v1.NetworkUIDAnnotation: "n"}},
		Spec:       v1.NetworkSpec{CIDR: cidr, Exclude: []v1.AddressRange{"10.0.0.5"}},
	}
}

func webOf(replicas int32) *v1.Pod2 {
	return &v1.Pod2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u-web"}, Spec: v1.Pod2Spec{Replicas: ptr.To(replicas), MinReadySeconds: 10}}
}

// Each promise is shown broken, and next to it kept.
func TestPromises(t *testing.T) {
	rolling := func(p *v1.Pod2, unavailable, surge intstr.IntOrString) *v1.Pod2 {
		p.Spec.UpdateStrategy.RollingUpdate = &v1.Pod2RollingUpdate{MaxUnavailable: &unavailable, MaxSurge: &surge}
		return p
	}
	recreate := webOf(3)
	recreate.Spec.UpdateStrategy.Type = v1.Recreate
	ours := func(uid types.UID) bool { return uid == "u-web" }
	netblue := Held{"default", "blue", netip.MustParseAddr("10.0.0.3")}
	had := netip.MustParseAddr("10.0.0.2")
	sealed := blockOf()
	sealed.Spec.Sealed = true
	grew := networkOf("10.0.0.0/28")
	grew.Status.CIDRs = []string{"10.0.0.0/29", "10.0.0.0/28"}
	write := func(verb, resource, subresource, name, uid, version string) Write {
		return Write{verb, resource, subresource, name, uid, version}
	}
	two := func(text string) (*corev1.Pod, []*corev1.Pod) { // the taken pod, then the others
		pods := podsOf(strings.Split(text, "; ")...)
		return pods[0], pods[1:]
	}
	tooFew := func(text string, specs ...*v1.Pod2) string {
		taken, others := two(text)
		return TooFew(taken, others, specs, now)
	}
	tooMany := func(most int, texts ...string) string {
		pods := podsOf(texts...)
		return TooMany(pods[0], pods, most)
	}
	for _, test := range []struct{ name, got, want string }{
		{"S1 kept", SharedAddress(podsOf("a has=10.0.0.2/29", "b has=10.0.0.3/29")), ""},
		{"S1 broken", SharedAddress(podsOf("a has=10.0.0.2/29", "b has=10.0.0.2/28")), "S1: 10.0.0.2 of Network default/blue is held by a and b"},
		{"S1 one pod has terminated", SharedAddress(podsOf("a has=10.0.0.2/29 failed", "b has=10.0.0.2/29")), ""},
		{"S1 one pod is gated", SharedAddress(podsOf("a has=10.0.0.2/29 gated", "b has=10.0.0.2/29")), ""},
		{"S1 one pod is being deleted", SharedAddress(podsOf("a has=10.0.0.2/29 terminating", "b has=10.0.0.2/29")), "S1: "},

		{"S2 a host", Unusable(networkOf("10.0.0.0/29"), "10.0.0.2"), ""},
		{"S2 outside", Unusable(networkOf("10.0.0.0/29"), "10.0.0.8"), "is outside"},
		{"S2 network address", Unusable(networkOf("10.0.0.0/29"), "10.0.0.0"), "is the network or broadcast"},
		{"S2 broadcast address", Unusable(networkOf("10.0.0.0/29"), "10.0.0.7"), "is the network or broadcast"},
		{"S2 all of a /31", Unusable(networkOf("10.0.0.2/31"), "10.0.0.3"), ""},
		{"S2 gateway", Unusable(networkOf("10.0.0.0/29"), "10.0.0.1"), "is the gateway"},
		{"S2 excluded", Unusable(networkOf("10.0.0.0/29"), "10.0.0.5"), "is excluded"},
		{"S2 the broadcast address of an earlier CIDR", Unusable(grew, "10.0.0.7"), "was the network or broadcast"},
		{"S2 handed out", HandedOut(nil, blockOf("10.0.0.2 Bound a"), []*v1.Network{networkOf("10.0.0.0/29")}, nil), ""},
		{"S2 handed out wrongly", HandedOut(nil, blockOf("10.0.0.8 Bound a"), []*v1.Network{networkOf("10.0.0.0/29")}, nil), "S2: 10.0.0.8 of Network blue is handed out to a, but it is outside"},
		{"S2 right by the earlier spec", HandedOut(nil, blockOf("10.0.0.8 Bound a"), []*v1.Network{networkOf("10.0.0.0/29"), networkOf("10.0.0.0/28")}, nil), ""},
		{"S2 reserved before", HandedOut(blockOf("10.0.0.8 Reserved a"), blockOf("10.0.0.8 Bound a"), []*v1.Network{networkOf("10.0.0.0/29")}, nil), ""},
		{"S2 written back", HandedOut(nil, blockOf("10.0.0.8 Bound a"), []*v1.Network{networkOf("10.0.0.0/29")}, podsOf("a has=10.0.0.8/28")), ""},
		{"S2 written back to another pod", HandedOut(nil, blockOf("10.0.0.8 Bound a"), []*v1.Network{networkOf("10.0.0.0/29")}, podsOf("a has=10.0.0.9/28")), "S2: "},
		{"S2 without a Network", HandedOut(nil, blockOf("10.0.0.2 Bound a"), nil, nil), "S2: "},
		{"S2 broadcast for a pod", OnEdge([]*v1.AddressBlock{blockOf("10.0.0.7 Bound a")}, podsOf("b has=10.0.0.2/29")), "S2: 10.0.0.7 of Network blue is bound to a, but it is the network or broadcast address for b"},
		{"S2 a host for a pod", OnEdge([]*v1.AddressBlock{blockOf("10.0.0.7 Bound a")}, podsOf("b has=10.0.0.2/28")), ""},

		{"S3 kept", Moved(podOf("web-0"), netblue, netblue.Address), ""},
		{"S3 first address", Moved(podOf("web-0"), netblue, netip.Addr{}), ""},
		{"S3 broken", Moved(podOf("web-0"), netblue, had), "S3: web-0 had 10.0.0.2 of Network blue, and now has 10.0.0.3"},
		{"S3 requested", Moved(podOf("web-0 asks=blue=10.0.0.3"), netblue, had), ""},
		{"S3 remembered", Kept{{Network: "n"}: had}.See(Replica{Network: "n"}, podOf("web-0"), netblue), "S3: "},

		{"S4 kept", tooMany(2, "web-0 of=web", "web-1 of=web terminating", "db-0 of=db"), ""},
		{"S4 broken", tooMany(1, "web-0 of=web", "web-1 of=web terminating"), "S4: web-0 is created: 2 pods of web exist, and at most 1 may"},
		{"S4 without a Pod2", tooMany(9, "web-0"), "S4: web-0 is created without a Pod2"},
		{"S4 maxSurge", fmt.Sprint(Most([]*v1.Pod2{webOf(2), rolling(webOf(3), intstr.FromInt32(0), intstr.FromString("50%"))})), "5"},

		{"S5 kept", tooFew("web-0 of=web ready=60; web-1 of=web ready=60; web-2 of=web ready=60", webOf(3)), ""},
		{"S5 broken", tooFew("web-0 of=web ready=60; web-1 of=web ready=60; web-2 of=web", webOf(3)), "S5: web-0 is taken away: 1 other pods of web are available, and 2 must be"},
		{"S5 another does not run its image", tooFew("web-0 of=web ready=60; web-1 of=web ready=60; web-2 of=web ready=60 image=old", webOf(3)), "S5: "},
		{"S5 another is being deleted", tooFew("web-0 of=web ready=60; web-1 of=web ready=60; web-2 of=web ready=60 terminating", webOf(3)), "S5: "},
		{"S5 another belongs to another Pod2", tooFew("web-0 of=web ready=60; web-1 of=web ready=60; web-2 of=db ready=60", webOf(3)), "S5: "},
		{"S5 another is too young", tooFew("web-0 of=web ready=60; web-1 of=web ready=60; web-2 of=web ready=5", webOf(3)), "S5: "},
		{"S5 a young pod", tooFew("web-0 of=web ready=5; web-1 of=web ready=60; web-2 of=web ready=60", webOf(3)), "S5: web-0, which is Ready, is updated: 2 other pods of web are available, and 3 must be"},
		{"S5 a young pod that is scaled down", tooFew("web-3 of=web ready=5; web-1 of=web ready=60", webOf(3)), ""},
		{"S5 a pod that does not serve", tooFew("web-0 of=web", webOf(3)), ""},
		{"S5 by the earlier spec", tooFew("web-0 of=web ready=60", webOf(3), webOf(1)), ""},
		{"S5 maxUnavailable", tooFew("web-0 of=web ready=60; web-1 of=web ready=60", rolling(webOf(3), intstr.FromString("67%"), intstr.FromInt32(0))), ""},
		{"S5 Recreate", tooFew("web-0 of=web ready=60", recreate), ""},

		{"S6 own pod deleted", write("delete", "pods", "", "a", "u", "1").NotOurs(podOf("a of=web"), ours), ""},
		{"S6 another owner's pod deleted", write("delete", "pods", "", "a", "u", "1").NotOurs(podOf("a of=db"), ours), "S6: delete pods a: no Pod2 of this controller controls the pod"},
		{"S6 pod without owner deleted", write("delete", "pods", "", "a", "u", "1").NotOurs(podOf("a"), ours), "S6: "},
		{"S6 pod without owner adopted", write("patch", "pods", "", "a", "u", "1").NotOurs(podOf("a"), ours), ""},
		{"S6 a Sidecar's pod changed", write("patch", "pods", "", "a", "u", "1").NotOurs(podOf("a by=ReplicaSet injected=mesh=1/0/0/1"), ours), ""},
		{"S6 a Sidecar's pod deleted", write("delete", "pods", "", "a", "u", "1").NotOurs(podOf("a by=ReplicaSet injected=mesh=1/0/0/1"), ours), "S6: "},
		{"S6 another owner's pod changed", write("patch", "pods", "", "a", "u", "1").NotOurs(podOf("a by=ReplicaSet"), ours), "S6: "},
		{"S6 another owner's pod that waits", write("patch", "pods", "", "a", "u", "1").NotOurs(podOf("a by=ReplicaSet gated"), ours), ""},
		{"S6 status of another owner's pod that asked", write("patch", "pods", "status", "a", "u", "").NotOurs(podOf("a by=ReplicaSet asks=blue"), ours), ""},
		{"S6 a PVC that a pod uses", write("delete", "persistentvolumeclaims", "", "data", "u", "1").ClaimInUse(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}, podsOf("a claim=data")), "S6: "},
		{"S6 a PVC that no pod uses", write("delete", "persistentvolumeclaims", "", "data", "u", "1").ClaimInUse(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}, podsOf("a claim=log")), ""},

		{"S7 create", write("create", "pods", "", "a", "", "").Unconditional(), ""},
		{"S7 create without a name", write("create", "pods", "", "", "", "").Unconditional(), "S7: "},
		{"S7 update", write("update", "networks", "", "a", "u", "1").Unconditional(), "S7: "},
		{"S7 patch", write("patch", "pods", "", "a", "u", "1").Unconditional(), ""},
		{"S7 patch without a UID", write("patch", "pods", "", "a", "", "1").Unconditional(), "S7: patch pods a has no UID"},
		{"S7 patch without a resourceVersion", write("patch", "networks", "status", "a", "u", "").Unconditional(), "S7: "},
		{"S7 a pod's status by its UID", write("patch", "pods", "status", "a", "u", "").Unconditional(), ""},
		{"S7 deletion without a resourceVersion", write("delete", "pods", "", "a", "u", "").Unconditional(), "S7: "},

		{"S8 kept", InUse(networkOf("10.0.0.0/29"), []*v1.AddressBlock{blockOf("10.0.0.2 Bound a")}, podsOf("a failed")), ""},
		{"S8 broken", InUse(networkOf("10.0.0.0/29"), []*v1.AddressBlock{blockOf("10.0.0.2 Bound a")}, podsOf("a")), "S8: Network blue is removed while its address 10.0.0.2 is bound to a"},
		{"S8 another pod with the name", InUse(networkOf("10.0.0.0/29"), []*v1.AddressBlock{blockOf("10.0.0.2 Bound a")}, podsOf("a uid=u2")), ""},
		{"S8 sealed", Unsealed(networkOf("10.0.0.0/29"), []*v1.AddressBlock{sealed}), ""},
		{"S8 not sealed", Unsealed(networkOf("10.0.0.0/29"), []*v1.AddressBlock{blockOf()}), "S8: "},
		{"S8 bound without a Network", BoundForNobody(nil, blockOf("10.0.0.2 Bound a"), nil, podsOf("a")), "S8: 10.0.0.2 is bound to a in an AddressBlock of a Network that is gone"},
		{"S8 bound before", BoundForNobody(blockOf("10.0.0.2 Bound a"), blockOf("10.0.0.2 Bound a"), nil, podsOf("a")), ""},
		{"S8 bound for the existing Network", BoundForNobody(nil, blockOf("10.0.0.2 Bound a"), networkOf("10.0.0.0/29"), podsOf("a")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !strings.HasPrefix(test.got, test.want) || (test.got == "") != (test.want == "") {
				t.Errorf("got %q, want %q", test.got, test.want)
			}
		})
	}
}

// An annotation with an unreadable part counts as none.
func TestPublished(t *testing.T) {
	for _, test := range []struct{ annotation, want string }{
		{`{"blue":{"address":"10.0.0.2/29","mac":"x"},"six":{"address":"fd00::2/64"}}`, `{"blue":"10.0.0.2/29","six":"fd00::2/64"}`},
		{`{"blue":{"address":"10.0.0.2/29"},"six":{}}`, `null`},
		{`{"blue":{"address":"::ffff:10.0.0.2/120"}}`, `null`},
		{`nonsense`, `null`},
		{``, `null`},
	} {
		got, err := json.Marshal(Published(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AddressesAnnotation: test.annotation}}}))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s (%v), want %s", test.annotation, got, err, test.want)
		}
	}
}
