package reconcile

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/pod2"
)

// fatten adds to a pod everything that an API server and a kubelet add, and more input for
// decisions.
func fatten(pod *corev1.Pod) *corev1.Pod {
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate}}
	pod.Annotations["example.com/note"] = "long"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1"}}
	pod.Spec.NodeName = "node"
	pod.Status.Reason, pod.Status.Message = "Evicted", "The node was low on memory."
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Ready: true}}
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now)})
	}
	condition(corev1.PodInitialized, corev1.ConditionTrue, "", "")
	if pod.Status.Phase == corev1.PodRunning {
		condition(corev1.PodScheduled, corev1.ConditionTrue, "", "")
	}
	switch pod.Name {
	case "web-1": // admission restored the old image
		pod.Annotations[v1.InPlaceAnnotation] = `{"containers":{"app":{"id":"id-1","image":"nginx:1"}}}`
		pod.Status.ContainerStatuses[0].ContainerID = "id-1"
		condition(corev1.PodReady, corev1.ConditionTrue, "", "")
	case "web-8": // a container of it restarts for a resize
		pod.Annotations[v1.InPlaceAnnotation] = `{"containers":{},"resizing":true}`
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
		pod.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{}
		condition(corev1.PodReady, corev1.ConditionTrue, "", "")
		condition(corev1.PodResizeInProgress, corev1.ConditionTrue, "", "")
	case "web-6": // its controller applies it
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Manager: "operator", Operation: metav1.ManagedFieldsOperationApply})
	case "web-9": // never gets the requested address
		pod.Spec.HostNetwork = true
	case "web-10": // a native sidecar of it restarts
		pod.Annotations[v1.SidecarsAnnotation] = "mesh=1/1/0/0"
		pod.Annotations[v1.InPlaceAnnotation] = `{"containers":{"mesh":{"id":"id-2","image":"mesh:1"}}}`
		pod.Spec.InitContainers = []corev1.Container{{Name: "mesh", Image: "mesh:2"}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", ContainerID: "id-2", Ready: true}}
		condition(corev1.PodReady, corev1.ConditionTrue, "", "")
	case "web-2":
		condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "no node")
	case "web-3":
		condition(v1.ConditionAddressesBound, corev1.ConditionFalse, network.ReasonNetworkExhausted, "no address")
	}
	return pod
}

func fatPod2() *v1.Pod2 {
	p := newPod2("web", 9, "blue")
	p.Spec.Template.Annotations = map[string]string{"example.com/note": "long"}
	return p
}

func fatPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, text := range []string{
		"web-0 of=Pod2/web label=web phase=Failed on=blue published=blue:10.1.0.2",
		"web-1 of=Pod2/web label=web phase=Running on=blue published=blue:10.1.0.3",
		"web-2 of=Pod2/web label=web phase=Pending on=blue published=blue:10.1.0.4",
		"web-3 of=Pod2/web label=web phase=Pending on=blue gated",
		"web-4 of=Pod2/web label=web phase=Running on=blue going published=blue:10.1.0.5",
		"web-5 of=ReplicaSet/rs phase=Running on=blue",
		"web-6 of=Pod2/web label=web phase=Pending on=blue gated",
		"web-8 of=Pod2/web label=web phase=Running on=blue published=blue:10.1.0.7",
		"web-9 of=Pod2/web label=web phase=Pending on=blue gated",
		"web-10 of=Pod2/web label=web phase=Running on=blue published=blue:10.1.0.8",
		"web-7 phase=Running on=blue published=blue:10.1.0.6",
	} {
		pod := fatten(newPod(text))
		p := fatPod2()
		if pod.Name == "web-7" { // to be adopted: matches the template
			pod.Spec.Containers, pod.Spec.Hostname = p.Spec.Template.Spec.Containers, pod.Name
		}
		pod.Labels[v1.PodTemplateHashLabel] = pod2.RevisionHash(p)
		pod.Annotations[v1.Pod2RequestAnnotation] = "blue"
		if pod.Name == "web-8" { // the Pod2 no longer has any
			pod.Labels["team"], pod.Annotations[v1.Pod2LabelsAnnotation] = "db", `{"team":"db"}`
		}
		if pod.Name == "web-6" {
			pod.Annotations[v1.MultusAnnotation] = "other-network"
		}
		pods = append(pods, pod)
	}
	return pods
}

func slimmed(pods []*corev1.Pod) []*corev1.Pod {
	var all []*corev1.Pod
	for _, pod := range pods {
		slim, _ := SlimPod(pod)
		all = append(all, slim.(*corev1.Pod))
	}
	return all
}

func TestSlimPodsGiveTheSamePlanForANetwork(t *testing.T) {
	plan := func(pods []*corev1.Pod) string {
		return network.Diff(network.State{Now: now, Namespace: ns, Name: "blue", Network: newNetwork("blue"), Pods: pods,
			Blocks: []*v1.AddressBlock{newBlock("blue", "10.1.0.2 web-0 Bound Pod2/web", "10.1.0.3 web-1 Bound Pod2/web", "10.1.0.9 x Bound")},
			Owners: map[v1.AddressOwner]network.Replicas{{Kind: KindPod2, Name: "web"}: {Ordinals: ordinals.New(0, 9, nil), Networks: []string{"blue"}}},
		}).String()
	}
	same(t, plan(slimmed(fatPods())), plan(fatPods()))
}

// web-1 is available, web-2 unschedulable, web-3 waits for an address, web-0 ended. The
// message of Ready is about the first of the given pods.
func TestSlimPodsGiveTheSamePlanForAPod2(t *testing.T) {
	for _, only := range []string{"web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "web-7", "web-8", "web-9", "web-10"} {
		t.Run(only, func(t *testing.T) {
			plan := func(pods []*corev1.Pod) string {
				var some []*corev1.Pod
				for _, pod := range pods {
					if pod.Name == only {
						some = append(some, pod)
					}
				}
				return pod2.Diff(pod2.State{Now: now, Pod2: fatPod2(), Pods: some, Networks: []*v1.Network{newNetwork("blue")}}).String()
			}
			same(t, plan(slimmed(fatPods())), plan(fatPods()))
		})
	}
}

func TestSlimPodsGiveTheSameAnswer(t *testing.T) {
	for i, fat := range fatPods() {
		t.Run(fat.Name, func(t *testing.T) {
			answer := func(pod *corev1.Pod) string {
				block := newBlock("blue", "10.1.0.7 "+pod.Name+" Bound")
				p := network.Publish(network.PodState{Now: now, Pod: pod, Networks: []network.Neighbour{
					{Name: "blue", Network: newNetwork("blue"), Blocks: []*v1.AddressBlock{block}}}})
				if p.Publish != nil {
					return p.String() + p.Publish.Multus.Networks
				}
				return p.String()
			}
			same(t, answer(slimmed(fatPods())[i]), answer(fat))
		})
	}
}

func TestSlimStatefulSetGivesTheSameOwner(t *testing.T) {
	fat := newStatefulSet("db", "blue", 5, 3)
	fat.Spec.Template.Annotations["example.com/note"] = "long"
	for _, name := range []string{"Replicas", "none"} {
		if name == "none" {
			fat.Spec.Replicas = nil
		}
		w := newWorld(t, newPod("db-5 on=blue of=StatefulSet/db"), fat.DeepCopy())
		state, _, err := w.r.kinds.network.observe(blue)
		if err != nil {
			t.Fatal(err)
		}
		got := state.Owners[v1.AddressOwner{Kind: "StatefulSet", Name: "db"}]
		if want := ptr.Deref(fat.Spec.Replicas, 1); got.Ordinals.String() != fmt.Sprintf("5+%d", want) || len(got.Networks) != 1 {
			t.Errorf("%s: got %+v, want %d from 5 on blue", name, got, want)
		}
	}
}

// Only publication reads the annotations of Multus, and it ends with the gate.
func TestThePublishedRequestToMultusIsNotKept(t *testing.T) {
	for text, kept := range map[string]bool{"web-0 of=Pod2/web on=blue gated": true, "web-0 of=Pod2/web on=blue published=blue:10.1.0.2": false} {
		pod := newPod(text)
		pod.Annotations[v1.MultusAnnotation] = "blue"
		if _, has := slimmed([]*corev1.Pod{pod})[0].Annotations[v1.MultusAnnotation]; has != kept {
			t.Errorf("%s: kept %t, want %t", text, has, kept)
		}
	}
}

// Publication reads only whether the pod was applied. The fields would be most of the memory of a pod.
func TestManagedFieldsAreKeptWhileTheyAreRead(t *testing.T) {
	for text, want := range map[string]string{"web-0 of=Pod2/web on=blue gated": "Apply", "web-0 of=Pod2/web on=blue published=blue:10.1.0.2": ""} {
		pod := newPod(text)
		for _, operation := range []metav1.ManagedFieldsOperationType{metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply} {
			pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Operation: operation, FieldsV1: metav1.NewFieldsV1("{}")})
		}
		got := ""
		for _, e := range slimmed([]*corev1.Pod{pod})[0].ManagedFields {
			got += string(e.Operation)
			if e.FieldsV1 != nil {
				got += " with fields"
			}
		}
		same(t, got, want)
	}
}

// A Pod2 compares the whole spec with its template.
func TestAPodWithoutAControllerKeepsItsSpec(t *testing.T) {
	pods := fatPods()
	fat := pods[len(pods)-1]
	if slim := slimmed(pods)[len(pods)-1]; metav1.GetControllerOf(fat) != nil || !equality.Semantic.DeepEqual(slim.Spec, fat.Spec) {
		t.Errorf("%s has %+v of %+v", fat.Name, slim.Spec, fat.Spec)
	}
}

// Objects from an informer must not be changed, because others read them too.
func TestSlimmingDoesNotChangeItsInput(t *testing.T) {
	set := newStatefulSet("db", "blue", 0, 1)
	set.Annotations = map[string]string{"example.com/note": "long"}
	set.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	pod := fatPods()[1]
	podBefore, setBefore := pod.DeepCopy(), set.DeepCopy()
	_, _ = SlimPod(pod)
	_, _ = SlimStatefulSet(set)
	if !equality.Semantic.DeepEqual(pod, podBefore) || !equality.Semantic.DeepEqual(set, setBefore) {
		t.Error("the input changed")
	}
}

func TestWhatIsNotSlimmedPassesThrough(t *testing.T) {
	n := newNetwork("blue")
	pod, _ := SlimPod(n)
	set, _ := SlimStatefulSet(n)
	if pod != any(n) || set != any(n) {
		t.Errorf("got %v and %v", pod, set)
	}
}
