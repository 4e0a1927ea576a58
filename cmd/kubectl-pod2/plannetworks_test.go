package main

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

// A script that applies a file only if the plan changes something must apply a Network, too.
func TestPlanCountsNetworks(t *testing.T) {
	file := write(t, fmt.Sprintf(manifest, "")+`---
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: blue}
spec: {cidr: 10.0.0.0/23}
`)
	p := web(func(p *v1.Pod2) { p.Spec.Networks, p.Spec.Replicas = nil, ptr.To[int32](0) })
	revision := revisionOf(p, 1)
	p.Status = *pod2.Diff(pod2.State{Now: now, Pod2: p, Revisions: []*appsv1.ControllerRevision{revision}}).Status
	for _, row := range []struct {
		name    string
		exists  []runtime.Object
		applied string
		want    string
		status  int
	}{
		{"created", nil, "10.0.0.0/23", "Network default/blue would be created.\n\n", 1},
		{"grown", []runtime.Object{newNetwork("blue", "10.0.0.0/24")}, "10.0.0.0/23", "Network default/blue would be configured.\n\n", 1},
		{"unchanged", []runtime.Object{newNetwork("blue", "10.0.0.0/23")}, "10.0.0.0/23", "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, append(row.exists, p, revision)...)
			w.dryRuns("pod2s", p)
			w.dryRuns("networks", newNetwork("blue", row.applied))
			requireText(t, w.run("plan", "-f", file), row.want+"Pod2 default/web would be unchanged, and the controller would do nothing.\n! ignored: Service/web\n")
			requireStatus(t, w, row.status)
		})
	}
}

// Most users may not list StorageClasses. The plan must not tell them that a PVC cannot grow.
func TestPlanWithoutStorageClasses(t *testing.T) {
	size := func(s string) corev1.PersistentVolumeClaimSpec {
		return corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}},
		}
	}
	p := web(func(p *v1.Pod2) {
		p.Spec.Networks = nil
		p.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: size("2Gi")}}
	})
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "data-web-0", UID: "u-claim"}, Spec: size("1Gi"),
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	w := newWorld(t, p, claim)
	w.dryRuns("pod2s", p)
	w.kube.PrependReactor("list", "storageclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("storageclasses"), "", fmt.Errorf("ask an administrator"))
	})
	got := w.run("plan", "-f", write(t, fmt.Sprintf(manifest, "")))
	if !strings.Contains(got, "! assumed that StorageClasses allow expansion: ") || strings.Contains(got, "ExpansionNotAllowed") || !strings.Contains(got, "data-web-0") {
		t.Errorf("the plan is\n%s", got)
	}
}
