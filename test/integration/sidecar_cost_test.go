//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// The benchmark measures the cost of Sidecars for each creation of a pod: the time in the API
// server's two policy plugins, with the label that leaves out all Sidecars, with other labels
// than a Sidecar selects, and with one of 20 Sidecars.
//
//	go test -tags=integration -run '^$' -bench PodWithSidecars -benchtime 500x -count 5 ./test/integration
func BenchmarkPodWithSidecars(b *testing.B) {
	install(b)
	namespace, err := kube.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "cost-", Labels: map[string]string{v1.SidecarsLabel: "enabled"}}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ns := namespace.Name
	b.Cleanup(func() { _ = kube.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	for i := range v1.MaxSidecars {
		s := &v1.Sidecar{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%02d", i)}, Spec: v1.SidecarSpec{
			Selector: map[string]string{"app": fmt.Sprint("app-", i)}, Containers: []corev1.Container{{Name: "mesh", Image: "m"}}, WhenNotReady: v1.SkipSidecar}}
		created, err := sample.SamplecrdV1().Sidecars(ns).Create(b.Context(), s, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		created.Status.Injected = &v1.SidecarGeneration{Generation: 1, Spec: created.Spec}
		if _, err := sample.SamplecrdV1().Sidecars(ns).UpdateStatus(b.Context(), created, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	dryRun := func(labels map[string]string) (*corev1.Pod, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
		return kube.CoreV1().Pods(ns).Create(b.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	for i := 0; i < v1.MaxSidecars; { // the API server reads the Sidecars in some order, and at first none
		pod, err := dryRun(map[string]string{"app": fmt.Sprint("app-", i)})
		if err == nil && len(pod.Spec.Containers) == 2 {
			i++
		}
	}
	for _, pod := range []struct {
		name   string
		labels map[string]string
	}{
		{"left-out", map[string]string{"app": "app-7", v1.SidecarsLabel: "disabled"}},
		{"not-selected", map[string]string{"app": "other"}},
		{"selected", map[string]string{"app": "app-7"}},
	} {
		b.Run(pod.name, func(b *testing.B) {
			_, mutating := policiesTook(b, "MutatingAdmissionPolicy")
			calls, validating := policiesTook(b, "ValidatingAdmissionPolicy")
			for b.Loop() {
				if _, err := dryRun(pod.labels); err != nil {
					b.Fatal(err)
				}
			}
			_, mutatingAfter := policiesTook(b, "MutatingAdmissionPolicy")
			callsAfter, validatingAfter := policiesTook(b, "ValidatingAdmissionPolicy")
			b.ReportMetric((mutatingAfter-mutating+validatingAfter-validating)*1e6/(callsAfter-calls), "µs/pod")
		})
	}
}
