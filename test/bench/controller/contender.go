package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

const (
	name  = "web"
	image = "registry.k8s.io/pause:3.10"
	// other is the image of an update in place.
	other = "registry.k8s.io/pause:3.9"
)

// contender creates pods in its own way: a client creates them one by one, a controller
// from a workload.
type contender struct {
	name     string
	networks []string
	// annotations of the pods, for CNI plugins.
	annotations map[string]any
	workload    schema.GroupVersionKind // empty if a client creates the pods
	spec        map[string]any          // of the workload, without replicas, template and Networks
	users       []string                // of the controllers, whose writes count
	updates     bool                    // a rolling update of all pods is measured
	inPlace     bool                    // a change of only the image recreates no pod
	scales      bool                    // the cost of scaling to zero is measured
	replaces    bool                    // a deleted pod is replaced
	full        bool                    // only --full measures it
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
	cloneSet      = "OpenKruise CloneSet"
	advanced      = "OpenKruise StatefulSet, Parallel"
)

const kruiseGroup = "apps.kruise.io"

// Users of the controllers.
var (
	pod2User        = measure.ServiceAccountUser("pod2-system", "pod2-controller")
	deploymentUsers = []string{measure.ServiceAccountUser("kube-system", "deployment-controller"), measure.ServiceAccountUser("kube-system", "replicaset-controller")}
	kruiseUser      = measure.ServiceAccountUser(kruiseNamespace, "kruise-manager")
	statefulSetUser = measure.ServiceAccountUser("kube-system", "statefulset-controller")
)

var (
	deploymentKind  = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	statefulSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	cloneSetKind    = schema.GroupVersionKind{Group: kruiseGroup, Version: "v1alpha1", Kind: "CloneSet"}
	advancedKind    = schema.GroupVersionKind{Group: kruiseGroup, Version: "v1beta1", Kind: "StatefulSet"}
	pod2Kind        = schema.GroupVersionKind{Group: samplecrdv1.GroupName, Version: "v1", Kind: "Pod2"}
	labels          = map[string]any{"app": name}
)

func contenders() []contender {
	selector := map[string]any{"matchLabels": labels}
	rolling := func(bounds map[string]any) map[string]any { return map[string]any{"rollingUpdate": bounds} }
	deploymentSpec := map[string]any{"selector": selector, "strategy": rolling(map[string]any{"maxUnavailable": "25%", "maxSurge": 0})}
	statefulSpec := map[string]any{"selector": selector, "podManagementPolicy": "Parallel"}
	pod2Spec := map[string]any{"updateStrategy": rolling(map[string]any{"maxUnavailable": "25%"})}
	// In place if possible, as the documentation of OpenKruise recommends.
	cloneSetSpec := map[string]any{"selector": selector, "updateStrategy": map[string]any{"type": "InPlaceIfPossible", "maxUnavailable": "25%"}}
	advancedSpec := map[string]any{"selector": selector, "podManagementPolicy": "Parallel",
		"updateStrategy": rolling(map[string]any{"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%"})}
	return []contender{
		{name: raw},
		{name: rawTwice},
		{name: deployment, workload: deploymentKind, spec: deploymentSpec, users: deploymentUsers, updates: true, replaces: true},
		{name: statefulSet, workload: statefulSetKind, spec: statefulSpec, users: []string{statefulSetUser}, replaces: true},
		{name: cloneSet, workload: cloneSetKind, spec: cloneSetSpec, users: []string{kruiseUser}, updates: true, inPlace: true, replaces: true},
		{name: advanced, workload: advancedKind, spec: advancedSpec, users: []string{kruiseUser}, updates: true, inPlace: true, replaces: true},
		{name: pod2, workload: pod2Kind, spec: pod2Spec, users: []string{pod2User}, updates: true, inPlace: true, replaces: true},
		{name: pod2OnOne, networks: []string{"blue"}, workload: pod2Kind, spec: pod2Spec, users: []string{pod2User}, updates: true, scales: true, replaces: true},
		{name: pod2OnTwo, full: true, networks: []string{"blue", "green"}, workload: pod2Kind, spec: pod2Spec, users: []string{pod2User}},
		{name: statefulOnOne, full: true, networks: []string{"blue"}, workload: statefulSetKind, spec: statefulSpec, users: []string{statefulSetUser, pod2User}},
	}
}

// True if the Pod2 controller creates the pods.
func (c contender) ours() bool { return c.workload == pod2Kind }

// True if OpenKruise creates the pods.
func (c contender) kruise() bool { return c.workload.Group == kruiseGroup }

func (c contender) raw() bool { return c.workload.Empty() }

// creator is the component that creates the pods. For a client that creates them itself, it
// is kube-controller-manager, the only controller that handles them.
func (c contender) creator() string {
	switch {
	case c.ours():
		return pod2Controller
	case c.kruise():
		return peerPrograms
	}
	return controllerManager
}

// podSpec is the same for all contenders.
func podSpec(image, value string) map[string]any {
	return map[string]any{
		"automountServiceAccountToken": false,
		"containers":                   []any{map[string]any{"name": name, "image": image, "env": []any{map[string]any{"name": "VALUE", "value": value}}}},
	}
}

func (b *bench) objects(c contender, ns string) dynamic.ResourceInterface {
	resources := map[string]string{"Deployment": "deployments", "StatefulSet": "statefulsets", "CloneSet": "clonesets", "Pod2": "pod2s"}
	return b.workloads.Resource(c.workload.GroupVersion().WithResource(resources[c.workload.Kind])).Namespace(ns)
}

// create requests n pods, and delete requests none. Both may return long before the pods
// exist or are gone.
func (b *bench) create(ctx context.Context, c contender, ns string, n int) {
	if c.raw() {
		b.createRaw(ctx, ns, n, c.name == rawTwice)
		return
	}
	spec := maps.Clone(c.spec)
	if spec == nil {
		spec = map[string]any{}
	}
	metadata := map[string]any{"labels": labels}
	if c.annotations != nil {
		metadata["annotations"] = c.annotations
	}
	switch {
	case c.ours():
		networks := []any{}
		for _, network := range c.networks {
			networks = append(networks, map[string]any{"name": network})
		}
		spec["networks"] = networks
	case len(c.networks) > 0: // only the annotation: a policy adds the scheduling gate and the label
		metadata["annotations"] = map[string]any{samplecrdv1.NetworksAnnotation: c.networks[0]}
	}
	pod := podSpec(image, "1")
	if c.workload == advancedKind { // a webhook demands it of a StatefulSet that updates in place
		pod["readinessGates"] = []any{map[string]any{"conditionType": "InPlaceUpdateReady"}}
	}
	spec["replicas"], spec["template"] = n, map[string]any{"metadata": metadata, "spec": pod}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}}
	object.SetGroupVersionKind(c.workload)
	measure.Must(b.objects(c, ns).Create(ctx, object, metav1.CreateOptions{}))
}

// delete the workload by its UID. This needs a read, which every contender has.
func (b *bench) delete(ctx context.Context, c contender, ns string) {
	if c.raw() {
		b.deleteRaw(ctx, ns)
		return
	}
	uid := b.read(ctx, c, ns).GetUID()
	measure.Check(b.objects(c, ns).Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(uid))))
}

func (b *bench) read(ctx context.Context, c contender, ns string) *unstructured.Unstructured {
	return measure.Must(b.objects(c, ns).Get(ctx, name, metav1.GetOptions{}))
}

// patch the spec of the workload by its UID. A merge patch replaces a list as a whole.
func (b *bench) patch(ctx context.Context, c contender, ns string, spec map[string]any) {
	body := measure.Must(json.Marshal(map[string]any{"metadata": map[string]any{"uid": b.read(ctx, c, ns).GetUID()}, "spec": spec}))
	measure.Must(b.objects(c, ns).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}))
}

// updated says whether the last change is complete, according to the status.
func (b *bench) updated(ctx context.Context, c contender, ns string, n int) bool {
	object := b.read(ctx, c, ns)
	for field, want := range map[string]int64{"observedGeneration": object.GetGeneration(), "replicas": int64(n), "updatedReplicas": int64(n), "availableReplicas": int64(n)} {
		if is, _, _ := unstructured.NestedInt64(object.Object, "status", field); is != want {
			return false
		}
	}
	return true
}

// rawGate is used instead of Pod2's scheduling gate, which a policy protects from other users.
const rawGate = "bench.example.com/gate"

// createRaw creates pods, sixteen at once. With twice, each pod has a scheduling gate. Once
// the pod exists, one update removes the gate, clears managedFields, and adds two annotations as large as Pod2's.
func (b *bench) createRaw(ctx context.Context, ns string, n int, twice bool) {
	pods := b.Kube.CoreV1().Pods(ns)
	measure.Parallel(n, func(i int) {
		pod := rawPod(i)
		if twice {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: rawGate}}
		}
		made := measure.Must(pods.Create(ctx, pod, metav1.CreateOptions{}))
		if !twice {
			return
		}
		made.Spec.SchedulingGates = nil
		made.ManagedFields = []metav1.ManagedFieldsEntry{{}} // clears them, as Pod2's publication does
		made.Annotations = map[string]string{
			"bench.example.com/addresses": `{"blue":{"address":"10.0.255.255/16","gateway":"10.0.0.1"}}`,
			"bench.example.com/networks":  `[{"name":"blue","ips":["10.0.255.255/16"]}]`,
		}
		measure.Must(pods.Update(ctx, made, metav1.UpdateOptions{}))
	})
}

// rawPod is the same pod that workloads create.
func rawPod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers:                   []corev1.Container{{Name: name, Image: image, Env: []corev1.EnvVar{{Name: "VALUE", Value: "1"}}}},
		},
	}
}

func (b *bench) deleteRaw(ctx context.Context, ns string) {
	pods := b.Kube.CoreV1().Pods(ns)
	list := measure.Must(pods.List(ctx, metav1.ListOptions{})).Items
	measure.Parallel(len(list), func(i int) {
		measure.Check(pods.Delete(ctx, list[i].Name, *metav1.NewPreconditionDeleteOptions(string(list[i].UID))))
	})
}
