package reconcile

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ipam"
	"github.com/pod2/pod2/test/apiserver"
)

const ns = "default"

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// metaOf returns the metadata of an object whose UID is uid-of-<name>.
func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-of-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
}

// newNetwork reads words such as "blue 10.1.0.0/30 going unprotected told"; the default
// CIDR is 10.1.0.0/16.
func newNetwork(text string) *v1.Network {
	words := strings.Fields(text)
	n := &v1.Network{ObjectMeta: metaOf(words[0]), Spec: v1.NetworkSpec{CIDR: "10.1.0.0/16"}}
	n.Finalizers = []string{v1.InUseFinalizer}
	n.Annotations = map[string]string{v1.NetworkUIDAnnotation: string(n.UID)}
	for _, word := range words[1:] {
		switch word {
		case "going":
			n.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "unprotected":
			n.Finalizers = nil
		case "new":
			n.Annotations = nil
		case "told": // its own sync has written the status
			defer func() { n.Status.ObservedGeneration = n.Generation }()
		default:
			n.Spec.CIDR = netip.MustParsePrefix(word).String()
		}
	}
	n.Status.CIDRs = []string{n.Spec.CIDR}
	apiserver.SetDefaults(n)
	return n
}

// newBlock returns the AddressBlock 10.1.0.0/24 of a Network, with entries such as "10.1.0.2
// web-0 Bound Pod2/web", an hour old.
func newBlock(network string, entries ...string) *v1.AddressBlock {
	prefix := netip.MustParsePrefix("10.1.0.0/24")
	b := &v1.AddressBlock{ObjectMeta: metaOf(ipam.BlockName(network, prefix)), Spec: v1.AddressBlockSpec{
		Network: network, NetworkUID: types.UID("uid-of-" + network), CIDR: prefix.String(),
	}}
	b.Finalizers = []string{v1.InUseFinalizer}
	b.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "Network", Name: network, UID: b.Spec.NetworkUID, Controller: ptr.To(true)}}
	for _, text := range entries {
		words := strings.Fields(text)
		e := v1.AddressEntry{Address: words[0], Pod: words[1], State: v1.AddressState(words[2]), Since: metav1.NewTime(now.Add(-time.Hour))}
		if e.State == v1.AddressBound {
			e.PodUID = types.UID("uid-of-" + e.Pod)
		}
		if len(words) > 3 {
			e.Owner.Kind, e.Owner.Name, _ = strings.Cut(words[3], "/")
		}
		b.Spec.Entries = append(b.Spec.Entries, e)
	}
	return b
}

// newPod reads words such as
//
//	web-0 gated on=blue,green of=Pod2/web published=blue:10.1.0.2 phase=Failed unlabelled going uid=other label=web
func newPod(text string) *corev1.Pod {
	words := strings.Fields(text)
	pod := &corev1.Pod{ObjectMeta: metaOf(words[0])}
	pod.Labels = map[string]string{v1.ManagedLabel: "true"}
	pod.Annotations = map[string]string{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "gated":
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}
		case "on":
			pod.Annotations[v1.NetworksAnnotation] = value
		case "published":
			network, address, _ := strings.Cut(value, ":")
			pod.Annotations[v1.AddressesAnnotation] = attachment.FormatAddresses(map[string]attachment.Address{
				network: {Address: netip.PrefixFrom(netip.MustParseAddr(address), 16)},
			})
		case "phase":
			pod.Status.Phase = corev1.PodPhase(value)
		case "of":
			pod.OwnerReferences = []metav1.OwnerReference{ownerRef(value)}
		case "unlabelled":
			delete(pod.Labels, v1.ManagedLabel)
		case "label":
			pod.Labels[v1.Pod2Label], pod.Labels[v1.PodIndexLabel] = value, pod.Name[strings.LastIndexByte(pod.Name, '-')+1:]
		case "going":
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		case "uid":
			pod.UID = types.UID(value)
		case "node":
			pod.Spec.NodeName = value
		default:
			panic(fmt.Sprintf("unknown word: %s", word))
		}
	}
	return pod
}

func ownerRef(text string) metav1.OwnerReference {
	kind, name, _ := strings.Cut(text, "/")
	version := "apps/v1"
	if kind == KindPod2 {
		version = v1.GroupVersion.String()
	}
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID("uid-of-" + name), Controller: ptr.To(true)}
}

func newPod2(name string, replicas int32, networks ...string) *v1.Pod2 {
	p := &v1.Pod2{ObjectMeta: metaOf(name), Spec: v1.Pod2Spec{
		Replicas: ptr.To(replicas),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "nginx:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}},
		}}}},
	}}
	for _, n := range networks {
		p.Spec.Networks = append(p.Spec.Networks, v1.Pod2Network{Name: n})
	}
	return p
}

func newStatefulSet(name, networks string, start, replicas int32) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metaOf(name), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(replicas), Ordinals: &appsv1.StatefulSetOrdinals{Start: start},
	}}
	set.Spec.Template.Annotations = map[string]string{v1.NetworksAnnotation: networks}
	return set
}

// another is another object with the same name.
func another[T metav1.Object](obj T) T {
	obj.SetUID("uid-of-another")
	return obj
}
