package model

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func blue(cidr string) *v1.Network {
	return &v1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "blue"},
		Spec:       v1.NetworkSpec{CIDR: cidr, ReuseDelaySeconds: ptr.To[int32](0)},
	}
}

func bare(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1.ManagedLabel: "true"},
			Annotations: map[string]string{v1.NetworksAnnotation: "blue"},
		},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1.AddressesGate}}},
	}
}

// Small configurations take seconds.
func Small() []*Config {
	keys := []Key{{"Network", "blue"}, {"Pod", "a"}, {"Pod", "b"}}
	return []*Config{
		{
			Name: "bind", Controllers: 2, Keys: keys,
			Setup: func(w *World) { w.Create(Networks, blue("10.0.0.0/29")) },
			Then: func(w *World) {
				w.Create(Pods, bare("a"))
				w.Create(Pods, bare("b"))
			},
		},
	}
}

var _ = time.Second
