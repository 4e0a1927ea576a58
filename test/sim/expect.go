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

// Pods are those that are stored now, in the order of names.
func (w *World) Pods() []*corev1.Pod {
	w.Lock()
	defer w.Unlock()
	return apiserver.List[*corev1.Pod](w.Server, "pods")
}

// Expect has an object ("pod2s/web", "pods/other/web-0") exist, say each of some things
// in its conditions, and the truth in its counters. While a watch stands still, it need
// not know of them; and an interrupt may have taken a pod, or made a Pod2 anew.
func (w *World) Expect(what string, texts ...string) {
	missing, said := w.unsaid(what, texts)
	if missing != "" {
		time.Sleep(40 * time.Second) // somebody may have changed it a moment ago
		missing, said = w.unsaid(what, texts)
	}
	w.Lock()
	defer w.Unlock()
	taken := w.interrupted && (strings.HasPrefix(what, "pods/") || strings.HasPrefix(what, "pod2s/"))
	if missing != "" && w.Thaw == nil && !taken {
		w.fault(fmt.Sprintf("%s does not say %q; it says: %s", what, missing, said))
	}
}

// ExpectOne has one of several objects say something in its conditions.
func (w *World) ExpectOne(text string, objects ...string) {
	for _, what := range objects {
		if missing, _ := w.unsaid(what, []string{text}); missing == "" {
			return
		}
	}
	w.Expect(objects[0], text)
}

// ExpectEvent has an event of an object say something. A run that was killed, or that
// did not lead, need not have sent it.
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
		w.fault(fmt.Sprintf("no event of %s says %q; they say: %q", what, text, said))
	}
}

// unsaid is the first of the texts that an object does not say, and what it does say.
func (w *World) unsaid(what string, texts []string) (missing, said string) {
	w.Lock()
	defer w.Unlock()
	resource, name, _ := strings.Cut(what, "/")
	r := apiserver.ResourceNamed(resource)
	namespace, bare := r.Place(name)
	obj := w.Get(r, namespace, bare)
	if obj == nil {
		return "that it exists", "nothing"
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

// describe is an object as its users see it: its counters, and its conditions.
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

// counted is what the counters of a Pod2 are to say, by the pods that there are.
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
