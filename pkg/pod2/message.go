package pod2

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pod2/pod2/internal/shorten"
	"github.com/pod2/pod2/pkg/attachment"
)

const (
	// namesShown bounds how many pods a message names: it is for a person's eye.
	namesShown = 3
	// maxCause bounds, in bytes, texts of others.
	maxCause = 256
)

// list joins what is said of pods. How many others there are is not said: the
// number would change, and with it the condition, at every step.
func list(all []string) string {
	if len(all) <= namesShown {
		return strings.Join(all, "; ")
	}
	return strings.Join(all[:namesShown], "; ") + "; and others"
}

// names for an event: "web-0, web-1 and 1,998 others". n names are asked for by
// index, and only the ones that are shown.
func names(n int, name func(int) string) string {
	shown := n
	if n > namesShown {
		shown = namesShown - 1
	}
	var b strings.Builder
	for i := range shown {
		if i > 0 && i == n-1 {
			b.WriteString(" and ")
		} else if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name(i))
	}
	if shown < n {
		fmt.Fprintf(&b, " and %s others", thousands(n-shown))
	}
	return b.String()
}

// thousands writes 1998 as 1,998.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// cause is why a pod is in the phase it is in, as far as it says.
func cause(pod *corev1.Pod) string {
	reason, message := pod.Status.Reason, pod.Status.Message
	if c := attachment.Condition(pod, corev1.PodReady); reason == "" && message == "" && c != nil && c.Status != corev1.ConditionTrue {
		message = c.Message
	}
	phase := string(pod.Status.Phase)
	if phase == "" {
		phase = string(corev1.PodPending)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && (w.Reason != "" || w.Message != "") {
			reason, message = fmt.Sprintf("container %s: %s", c.Name, w.Reason), w.Message
			break
		}
	}
	parts := []string{phase}
	for _, part := range []string{reason, message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return shorten.To(strings.Join(parts, ": "), maxCause)
}
