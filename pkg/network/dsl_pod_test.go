package network

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
)

func parsePod(t testing.TB, words []string) *corev1.Pod {
	name, uid, _ := strings.Cut(words[0], "/")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Annotations: map[string]string{},
	}}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "gated":
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
		case "hostnetwork":
			pod.Spec.HostNetwork = true
		case "asks":
			pod.Annotations[v1.NetworksAnnotation] = value
		case "has":
			if value == "!" { // unreadable
				pod.Annotations[v1.AddressesAnnotation] = value
				break
			}
			addresses := map[string]attachment.Address{}
			for one := range strings.SplitSeq(value, ",") {
				network, address, _ := strings.Cut(one, ":")
				prefix := netip.MustParsePrefix(address)
				addresses[network] = attachment.Address{Address: prefix, MAC: ipam.MAC(prefix.Addr())}
			}
			pod.Annotations[v1.AddressesAnnotation] = attachment.FormatAddresses(addresses)
		case "multus":
			pod.Annotations[v1.MultusAnnotation] = value
		case "of":
			owner := parseOwner(value)
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: owner.Kind, Name: owner.Name, UID: "u-owner", Controller: ptr.To(true)}}
		case "managers": // how they wrote the pod
			for operation := range strings.SplitSeq(value, ",") {
				pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Operation: metav1.ManagedFieldsOperationType(operation)})
			}
		case "age":
			age, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			pod.CreationTimestamp = metav1.NewTime(now.Add(-age))
		case "terminating":
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "phase":
			pod.Status.Phase = corev1.PodPhase(value)
		case "condition":
			status, reason, _ := strings.Cut(value, "/")
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: v1.ConditionAddressesBound, Status: corev1.ConditionStatus(status), Reason: reason,
			})
		default:
			t.Fatalf("unknown word: %s", word)
		}
	}
	return pod
}

func parseOwner(text string) v1.AddressOwner {
	kind, name, _ := strings.Cut(text, "/")
	return v1.AddressOwner{Kind: kind, Name: name}
}
