package main

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

const name = "web"

// contender brings pods about, each in a way of its own.
type contender struct {
	name     string
	networks []string
	// create asks for n pods, and delete for none; both may return long before it is so.
	create func(ctx context.Context, b *bench, namespace string, n int) error
	delete func(ctx context.Context, b *bench, namespace string) error
	// set changes the template to this image, and the value of an environment variable; nil
	// if it has no rolling update that can be waited for.
	set func(ctx context.Context, b *bench, namespace, image, value string) error
	// updated says whether the last change has come to its end, by the status.
	updated func(ctx context.Context, b *bench, namespace string, n int) (bool, error)
	// scale changes how many pods there are to be; nil: what that costs is not measured.
	scale func(ctx context.Context, b *bench, namespace string, n int) error
	// inPlace: a change of the image alone recreates no pod.
	inPlace bool
	// replaces: a pod that somebody deletes comes back.
	replaces bool
	// ours: it is our controller that creates the pods.
	ours bool
}

// creator is the component that creates the pods; of what a client creates by itself it
// is the one that has to do with them at all.
func (c contender) creator() string {
	if c.ours {
		return pod2Controller
	}
	return "kube-controller-manager"
}

const (
	raw           = "raw client, 16 at once"
	rawTwice      = "raw client, gated, then one write more"
	deployment    = "Deployment"
	statefulSet   = "StatefulSet, Parallel"
	pod2          = "Pod2"
	pod2OnOne     = "Pod2 on one Network"
	pod2OnTwo     = "Pod2 on two Networks"
	statefulOnOne = "StatefulSet on one Network"
)

func contenders() []contender {
	return []contender{
		{name: raw, create: func(ctx context.Context, b *bench, ns string, n int) error { return b.createRaw(ctx, ns, n, false) }, delete: deleteRaw},
		{name: rawTwice, create: func(ctx context.Context, b *bench, ns string, n int) error { return b.createRaw(ctx, ns, n, true) }, delete: deleteRaw},
		{name: deployment, create: createDeployment, delete: deleteDeployment, set: setDeployment, updated: deploymentUpdated, replaces: true},
		{name: statefulSet, create: createStatefulSet, delete: deleteStatefulSet, replaces: true},
		{name: pod2, create: createPod2(), delete: deletePod2, set: setPod2, updated: pod2Updated, inPlace: true, replaces: true, ours: true},
		{name: pod2OnOne, networks: []string{"blue"}, create: createPod2("blue"), delete: deletePod2, set: setPod2, updated: pod2Updated, scale: scalePod2, replaces: true, ours: true},
		{name: pod2OnTwo, networks: []string{"blue", "green"}, create: createPod2("blue", "green"), delete: deletePod2, ours: true},
		{name: statefulOnOne, networks: []string{"blue"}, create: createStatefulSet, delete: deleteStatefulSet},
	}
}

var labels = map[string]string{"app": name}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{
				Name: name, Image: "registry.k8s.io/pause:3.10", Env: []corev1.EnvVar{{Name: "VALUE", Value: "1"}},
			}},
		},
	}
}

func createDeployment(ctx context.Context, b *bench, ns string, n int) error {
	_, err := b.kube.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(n)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(),
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxUnavailable: ptr.To(intstr.FromString("25%")), MaxSurge: ptr.To(intstr.FromInt32(0)),
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

func deleteDeployment(ctx context.Context, b *bench, ns string) error {
	return deleteAsSeen(ctx, b.kube.AppsV1().Deployments(ns))
}

func setDeployment(ctx context.Context, b *bench, ns, image, value string) error {
	return patchAsSeen(ctx, b.kube.AppsV1().Deployments(ns), types.StrategicMergePatchType, withContainer(image, value))
}

func deploymentUpdated(ctx context.Context, b *bench, ns string, n int) (bool, error) {
	d, err := b.kube.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	s := d.Status
	return s.ObservedGeneration == d.Generation && all(n, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas), nil
}

func createStatefulSet(ctx context.Context, b *bench, ns string, n int) error {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(n)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(),
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}
	if list, err := b.sample.SamplecrdV1().Networks(ns).List(ctx, metav1.ListOptions{}); err != nil {
		return err
	} else if len(list.Items) > 0 { // the annotation is all: a policy adds gate and label
		set.Spec.Template.Annotations = map[string]string{samplecrdv1.NetworksAnnotation: list.Items[0].Name}
	}
	_, err := b.kube.AppsV1().StatefulSets(ns).Create(ctx, set, metav1.CreateOptions{})
	return err
}

func deleteStatefulSet(ctx context.Context, b *bench, ns string) error {
	return deleteAsSeen(ctx, b.kube.AppsV1().StatefulSets(ns))
}

func createPod2(networks ...string) func(ctx context.Context, b *bench, ns string, n int) error {
	return func(ctx context.Context, b *bench, ns string, n int) error {
		p := &samplecrdv1.Pod2{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: samplecrdv1.Pod2Spec{
				Replicas: ptr.To(int32(n)), Template: template(),
				UpdateStrategy: samplecrdv1.Pod2UpdateStrategy{RollingUpdate: &samplecrdv1.Pod2RollingUpdate{
					MaxUnavailable: ptr.To(intstr.FromString("25%")),
				}},
			},
		}
		for _, network := range networks {
			p.Spec.Networks = append(p.Spec.Networks, samplecrdv1.Pod2Network{Name: network})
		}
		_, err := b.sample.SamplecrdV1().Pod2s(ns).Create(ctx, p, metav1.CreateOptions{})
		return err
	}
}

// deleteAsSeen deletes the workload of a lap by its UID, which takes a read before, of
// every contender.
func deleteAsSeen[T metav1.Object](ctx context.Context, in interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}) error {
	object, err := in.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return in.Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(object.GetUID())))
}

// patchAsSeen changes the spec of the workload of a lap by its UID, as deleteAsSeen deletes
// it.
func patchAsSeen[T metav1.Object](ctx context.Context, in interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, body []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}, kind types.PatchType, spec map[string]any) error {
	object, err := in.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID()}, "spec": spec})
	if err != nil {
		return fmt.Errorf("encode the patch of %s: %w", name, err)
	}
	_, err = in.Patch(ctx, name, kind, body, metav1.PatchOptions{})
	return err
}

func deletePod2(ctx context.Context, b *bench, ns string) error {
	return deleteAsSeen(ctx, b.sample.SamplecrdV1().Pod2s(ns))
}

func scalePod2(ctx context.Context, b *bench, ns string, n int) error {
	return patchAsSeen(ctx, b.sample.SamplecrdV1().Pod2s(ns), types.MergePatchType, map[string]any{"replicas": n})
}

// setPod2 replaces the list of containers: a merge patch knows no names.
func setPod2(ctx context.Context, b *bench, ns, image, value string) error {
	return patchAsSeen(ctx, b.sample.SamplecrdV1().Pod2s(ns), types.MergePatchType, withContainer(image, value))
}

func pod2Updated(ctx context.Context, b *bench, ns string, n int) (bool, error) {
	p, err := b.sample.SamplecrdV1().Pod2s(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	s := p.Status
	return s.ObservedGeneration == p.Generation && all(n, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas), nil
}

// withContainer is the spec of a workload whose pods have this.
func withContainer(image, value string) map[string]any {
	return map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": name, "image": image, "env": []any{map[string]string{"name": "VALUE", "value": value}}}},
	}}}
}

func all(n int, counts ...int32) bool {
	for _, c := range counts {
		if int(c) != n {
			return false
		}
	}
	return true
}
