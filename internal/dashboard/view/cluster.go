package view

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/pkg/attachment"
)

// Node of the cluster.
type Node struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
}

// Agent is the pod of the data plane on a node.
type Agent struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
}

// Event of an object of Pod2's kinds, or of a pod that asks for addresses.
type Event struct {
	Namespace string `json:"namespace"`
	Type      string `json:"type"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Count     int32  `json:"count"`
	Last      int64  `json:"last"`
}

// OfNode returns the record of a Node.
func OfNode(n *corev1.Node) []Record {
	ready := false
	for _, c := range n.Status.Conditions {
		ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	return one("nodes", n, Node{n.Name, ready})
}

// OfAgent returns the record of a pod of the data plane.
func OfAgent(pod *corev1.Pod) []Record {
	return one("agents", pod, Agent{pod.Spec.NodeName, attachment.Ready(pod)})
}

// OfEvent returns the record of an event. The controller is the reporter of all events of Pod2.
func OfEvent(e *corev1.Event) []Record {
	last := e.LastTimestamp
	if last.IsZero() {
		last = e.CreationTimestamp
	}
	return one("events", e, Event{e.Namespace, e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message, max(e.Count, 1), seconds(last)})
}
