package plan

import corev1 "k8s.io/api/core/v1"

// Again returns the results of read for pods, in their order. It takes those of pods that are in
// the earlier ones, as the same pointer. This is fast if both are in name order. If all are the
// same, it returns earlier.
func Again[F interface{ Of() *corev1.Pod }](earlier []F, pods []*corev1.Pod, read func(*corev1.Pod) F) []F {
	results, changed, next := make([]F, len(pods)), len(earlier) != len(pods), 0
	for i, pod := range pods {
		// Most pods are the same, and then no name is read.
		for next < len(earlier) && earlier[next].Of() != pod && earlier[next].Of().Name < pod.Name {
			next++
		}
		if next < len(earlier) && earlier[next].Of() == pod {
			results[i] = earlier[next]
			next++
			continue
		}
		results[i], changed = read(pod), true
	}
	if !changed {
		return earlier
	}
	return results
}
