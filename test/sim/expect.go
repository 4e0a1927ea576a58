package sim

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// Pods returns the stored pods, in the order of their names.
func (w *World) Pods() []*corev1.Pod {
	w.Lock()
	defer w.Unlock()
	return apiserver.List[*corev1.Pod](w.Server, "pods")
}

// Expect requires that an object ("pod2s/web", "pods/other/web-0") exists, that its
// conditions have each of the texts, and that its counters are true. It requires nothing
// while a watch is frozen, or if an interrupt may have deleted a pod or recreated a Pod2.
func (w *World) Expect(what string, texts ...string) {
	missing, said := w.unsaid(what, texts)
	if missing != "" {
		time.Sleep(40 * time.Second) // a user may have changed it a moment ago
		missing, said = w.unsaid(what, texts)
	}
	w.Lock()
	defer w.Unlock()
	taken := w.interrupted && (strings.HasPrefix(what, "pods/") || strings.HasPrefix(what, "pod2s/"))
	if missing != "" && w.Thaw == nil && !taken {
		w.fault(fmt.Sprintf("%s does not have %q in its status, which is: %s", what, missing, said))
	}
}

// ExpectOne requires that one of several objects has a text in its conditions.
func (w *World) ExpectOne(text string, objects ...string) {
	for _, what := range objects {
		if missing, _ := w.unsaid(what, []string{text}); missing == "" {
			return
		}
	}
	w.Expect(objects[0], text)
}

// ExpectEvent requires that an event of an object has a text. It requires nothing if a run
// was killed or did not lead, because that run may not have sent the event.
func (w *World) ExpectEvent(what, text string) {
	runs := len(w.Runs())
	w.Lock()
	defer w.Unlock()
	resource, name, _ := strings.Cut(what, "/")
	r := apiserver.ResourceNamed(resource)
	namespace, bare := r.Place(name)
	if runs > 1 || w.Thaw != nil || w.interrupted {
		return
	}
	var said []string
	for _, e := range apiserver.List[*corev1.Event](w.Server, "events") {
		if e.InvolvedObject.Kind == r.Kind && e.Namespace == namespace && e.InvolvedObject.Name == bare {
			said = append(said, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}
	}
	if !strings.Contains(strings.Join(said, "\n"), text) {
		w.fault(fmt.Sprintf("no event of %s has %q; the events are: %q", what, text, said))
	}
}

// unsaid returns the first of the texts that an object does not have, and the texts that it
// has.
func (w *World) unsaid(what string, texts []string) (missing, said string) {
	w.Lock()
	defer w.Unlock()
	resource, name, _ := strings.Cut(what, "/")
	r := apiserver.ResourceNamed(resource)
	namespace, bare := r.Place(name)
	obj := w.Get(r, namespace, bare)
	if obj == nil {
		return "existence", "nothing"
	}
	said = describe(obj)
	if p, ok := obj.(*v1.Pod2); ok {
		texts = append([]string{w.counted(p)}, texts...)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			return text, said
		}
	}
	return "", said
}

// describe returns an object as its users see it: its counters and its conditions.
func describe(obj apiserver.Object) string {
	text, all := "", []metav1.Condition(nil)
	switch obj := obj.(type) {
	case *v1.Pod2:
		text, all = fmt.Sprintf("replicas %d, ready %d; ", obj.Status.Replicas, obj.Status.ReadyReplicas), obj.Status.Conditions
	case *v1.Network:
		all = obj.Status.Conditions
	case *stablev1.CronTab:
		all = obj.Status.Conditions
	case *corev1.Pod:
		text = string(obj.Status.Phase) + "; "
		for _, c := range obj.Spec.Containers {
			text += "image " + c.Image + "; "
		}
		for _, c := range obj.Status.Conditions {
			text += fmt.Sprintf("%s %s %s: %s; ", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, c := range all {
		text += fmt.Sprintf("%s %s %s: %s; ", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// counted returns the text that the counters of a Pod2 must have for the existing pods.
func (w *World) counted(p *v1.Pod2) string {
	all, serving := 0, 0
	for _, pod := range apiserver.List[*corev1.Pod](w.Server, "pods") {
		if metav1.IsControlledBy(pod, p) && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			all++
			if ready(pod) {
				serving++
			}
		}
	}
	return fmt.Sprintf("replicas %d, ready %d;", all, serving)
}
