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
	// namesShown bounds how many pods a message names. It must be readable.
	namesShown = 3
	// maxCause bounds, in bytes, texts from other components.
	maxCause = 256
)

// list joins texts about pods. It does not count the others: the number would change at
// every step, and with it the condition.
func list(all []string) string {
	if len(all) <= namesShown {
		return strings.Join(all, "; ")
	}
	return strings.Join(all[:namesShown], "; ") + "; and others"
}

// names returns the names for an event: "web-0, web-1 and 1,998 others". It asks for a
// name by index, and only for those that it shows.
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

// cause returns why a pod is in its phase, as far as the pod says.
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
