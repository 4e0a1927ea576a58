package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// newNode has all the fields that the controller leaves alone.
func newNode(uid types.UID) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: uid, Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.0.1.0/24"}, ProviderID: "x"},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}},
		},
	}
}

func newAgent(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app.kubernetes.io/name": "pod2-agent"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "agent"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready},
		}},
	}
}

// syncNode syncs node-1 and returns the calls and the resulting conditions.
func (w *world) syncNode() string {
	w.t.Helper()
	text := w.syncText(KindNode, "node-1")
	w.catchUp()
	node := stored[*corev1.Node](w, "node-1")
	if len(node.Status.Addresses) != 1 || node.Labels["a"] != "b" {
		w.t.Errorf("the sync changed other parts of the Node: %+v", node)
	}
	for _, c := range node.Status.Conditions {
		text += fmt.Sprintf("\n%s=%s %s", c.Type, c.Status, c.Reason)
	}
	return text
}

const (
	kubelets = "\nReady=True \nDiskPressure=False "
	is       = "\n" + v1.ConditionDataPlaneReady + "="
)

func TestANodeSaysWhetherItsAgentIsReady(t *testing.T) {
	w := newWorld(t, newNode("u1"), newAgent("agent-1", corev1.ConditionFalse))
	same(t, w.syncNode(), "patch nodes/status node-1 uid=u1 rv=101"+is+"False AgentNotReady"+kubelets)
	same(t, w.syncNode(), is+"False AgentNotReady"+kubelets)
	w.change(newAgent("agent-1", corev1.ConditionTrue))
	w.catchUp()
	same(t, w.syncNode(), "patch nodes/status node-1 uid=u1 rv=103"+is+"True AgentReady"+kubelets)
	same(t, w.syncNode(), is+"True AgentReady"+kubelets)
	w.remove(newAgent("agent-1", ""))
	w.catchUp()
	same(t, w.syncNode(), "patch nodes/status node-1 uid=u1 rv=105"+is+"False AgentNotReady"+kubelets)
	same(t, w.syncNode(), is+"False AgentNotReady"+kubelets)
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	same(t, w.syncNode(), "patch nodes/status node-1 uid=u1 rv=107"+kubelets)
	same(t, w.syncNode(), kubelets)
}

// The Node in the cache was recreated, or its kubelet wrote it.
func TestANodeThatIsAnotherIsLeftAlone(t *testing.T) {
	for _, tt := range []struct{ name, uid string }{
		{"replaced", "u2"},
		{"changed", "u1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, newNode("u1"), newAgent("agent-1", corev1.ConditionTrue))
			w.change(newNode(types.UID(tt.uid)))
			got := w.syncText(KindNode, "node-1")
			if !strings.HasPrefix(got, "patch nodes/status node-1 uid=u1 rv=101 -> Conflict\n") || !strings.Contains(got, ErrStale.Error()) {
				t.Errorf("got %s", got)
			}
			w.catchUp()
			same(t, w.syncNode(), "patch nodes/status node-1 uid="+tt.uid+" rv=103"+is+"True AgentReady"+kubelets)
		})
	}
}

func TestANodeThatIsGoneIsNoTrouble(t *testing.T) {
	w := newWorld(t, newAgent("agent-1", corev1.ConditionTrue))
	same(t, w.syncText(KindNode, "node-1"), "")
	gone := newNode("u1")
	w = newWorld(t, gone, newAgent("agent-1", corev1.ConditionTrue))
	w.remove(gone)
	if got := w.syncText(KindNode, "node-1"); !strings.HasPrefix(got, "patch nodes/status node-1 uid=u1 rv=101 -> NotFound\n") || !strings.Contains(got, ErrStale.Error()) {
		t.Errorf("got %s", got)
	}
}

// Any user may label a pod in their own namespace.
func TestPodsElsewhereAreNoAgents(t *testing.T) {
	forged := newAgent("agent-1", corev1.ConditionTrue)
	forged.Namespace = ns
	forged.Labels[v1.ManagedLabel] = "true"
	w := newWorld(t, newNode("u1"), forged)
	same(t, w.syncNode(), kubelets)
}

func TestWhichNodeAnEventConcerns(t *testing.T) {
	waiting := newAgent("agent-1", corev1.ConditionFalse)
	waiting.Spec.NodeName = ""
	w := newWorld(t)
	same(t, w.keysFor(newNode("u1")), "Node node-1")
	same(t, fmt.Sprint(nodesOfAgent(newAgent("agent-1", corev1.ConditionTrue)), nodesOfAgent(waiting)), "[Node node-1] []")
}

// The parts that the transforms keep lead to the same decision.
func TestSlimNodesAndAgents(t *testing.T) {
	node, pod := newNode("u1"), newAgent("agent-1", corev1.ConditionTrue)
	node.ResourceVersion, pod.ResourceVersion, pod.DeletionTimestamp = "7", "8", &metav1.Time{Time: now}
	ours := corev1.NodeCondition{Type: v1.ConditionDataPlaneReady, Status: corev1.ConditionTrue, Reason: "r", Message: "m", LastTransitionTime: metav1.NewTime(now)}
	node.Status.Conditions = append(node.Status.Conditions, ours)
	nodeBefore, podBefore := node.DeepCopy(), pod.DeepCopy()
	slimNode, _ := SlimNode(node)
	slimPod, _ := SlimAgent(pod)
	if want := (&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u1", ResourceVersion: "7"}, Spec: corev1.NodeSpec{PodCIDRs: node.Spec.PodCIDRs},
		Status: corev1.NodeStatus{Addresses: node.Status.Addresses, Conditions: []corev1.NodeCondition{ours}}}); !equality.Semantic.DeepEqual(slimNode, want) {
		t.Errorf("got %+v", slimNode)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: "agent-1", UID: "uid-of-agent-1", ResourceVersion: "8", DeletionTimestamp: pod.DeletionTimestamp},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if !equality.Semantic.DeepEqual(slimPod, want) {
		t.Errorf("got %+v", slimPod)
	}
	if !equality.Semantic.DeepEqual(node, nodeBefore) || !equality.Semantic.DeepEqual(pod, podBefore) {
		t.Error("the input changed")
	}
	if other, _ := SlimNode(pod); other != any(pod) {
		t.Errorf("the transform of Nodes changes a pod to %v", other)
	}
	if other, _ := SlimAgent(node); other != any(node) {
		t.Errorf("the transform of agents changes a Node to %v", other)
	}
}

func TestANodeIsNotJudgedByAViewBeforeItsOwnWrite(t *testing.T) {
	w := newWorld(t, newNode("u1"), newAgent("agent-1", corev1.ConditionTrue))
	same(t, w.syncText(KindNode, "node-1"), "patch nodes/status node-1 uid=u1 rv=101")
	same(t, w.syncText(KindNode, "node-1"), "sync Node node-1: the cache of nodes is at resourceVersion 102, our last write at 103: the view is out of date")
	w.catchUp()
	same(t, w.syncText(KindNode, "node-1"), "")
}
