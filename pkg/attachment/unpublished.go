package attachment

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Unpublished returns the annotations of a pod without the elements that AppendMultus
// made from the published addresses. A pod that was restored from a backup has such
// elements. It may be in another namespace now, or its Network may have grown.
// Unpublished keeps elements that differ.
func Unpublished(pod *corev1.Pod) map[string]string {
	published := Published(pod)
	if len(published) == 0 {
		return pod.Annotations
	}
	annotations := maps.Clone(pod.Annotations)
	for _, key := range []string{v1.MultusAnnotation, v1.MultusDefaultAnnotation} {
		if !strings.Contains(annotations[key], "{") { // our elements are JSON
			continue
		}
		raw, known, err := parseMultus(annotations[key])
		if err != nil {
			continue // Publish reports it
		}
		kept := make([]json.RawMessage, 0, len(raw))
		for i, element := range raw {
			a, ok := published[known[i].Name]
			if !ok || !slices.Equal(known[i].IPs, []string{a.Address.String()}) || known[i].MAC != a.MAC {
				kept = append(kept, element)
			}
		}
		switch {
		case len(kept) == len(raw):
		case len(kept) == 0:
			delete(annotations, key)
		default:
			annotations[key] = string(mustMarshal(kept))
		}
	}
	return annotations
}
