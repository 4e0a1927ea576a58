package network

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/spec"
)

// objects returns the objects of a State as an API server returns them, with whole seconds.
func objects(s State) *spec.Cluster {
	c := &spec.Cluster{Now: s.Now.Truncate(time.Second), Blocks: s.Blocks, Pods: s.Pods}
	for _, n := range append([]Neighbour{{Network: s.Network}}, s.Neighbours...) {
		if n.Network != nil {
			c.Networks = append(c.Networks, n.Network)
		}
		c.Blocks = slices.Concat(c.Blocks, n.Blocks)
	}
	for owner, r := range s.Owners {
		meta := metav1.ObjectMeta{Name: owner.Name}
		start, replicas := r.Ordinals.At(0), ptr.To(int32(r.Ordinals.Count()))
		var asks string
		for _, n := range r.Networks {
			asks += "," + n
		}
		if owner.Kind == "StatefulSet" {
			set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: replicas, Ordinals: &appsv1.StatefulSetOrdinals{Start: start}}}
			set.Spec.Template.Annotations = map[string]string{v1.NetworksAnnotation: asks[1:]}
			c.StatefulSets = append(c.StatefulSets, set)
		} else {
			p := &v1.Pod2{ObjectMeta: meta, Spec: v1.Pod2Spec{Replicas: replicas, Ordinals: &v1.Pod2Ordinals{Start: start}}}
			p.Spec.Template.Annotations = map[string]string{v1.NetworksAnnotation: asks[1:]}
			c.Pod2s = append(c.Pod2s, p)
		}
	}
	return c
}

// doneIfEmpty checks the goal: an empty plan means that the Network is done.
func doneIfEmpty(t *testing.T, s State, p Plan) {
	t.Helper()
	if why := spec.NetworkDone(objects(s), s.Name); p.Empty() && why != "" {
		t.Errorf("the plan is empty, but the Network is not done: %s", why)
	}
}
