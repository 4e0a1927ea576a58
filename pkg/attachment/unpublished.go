package attachment

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Unpublished returns the annotations of a pod without the elements that were
// published to it, as AppendMultus made them of the addresses that it brings. A pod
// that was restored from a backup has them; it may have been restored into another
// namespace, or its Network may have grown since. What is not exactly ours stays.
func Unpublished(pod *corev1.Pod) map[string]string {
	published := Published(pod)
	if len(published) == 0 {
		return pod.Annotations
	}
	annotations := maps.Clone(pod.Annotations)
	for _, key := range []string{v1.MultusAnnotation, v1.MultusDefaultAnnotation} {
		if !strings.Contains(annotations[key], "{") { // ours are JSON
			continue
		}
		raw, known, err := parseMultus(annotations[key])
		if err != nil {
			continue // it is complained about where it is read
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
