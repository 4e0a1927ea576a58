package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// The plan tries the first pod, and includes a refusal by the API server.
func TestPlanTriesTheFirstPod(t *testing.T) {
	file := write(t, fmt.Sprintf(manifest, ""))
	pods := corev1.Resource("pods")
	forbidden := func(why string) error { return apierrors.NewForbidden(pods, "web-0", errors.New(why)) }
	after := web(func(p *v1.Pod2) {
		p.Spec.Networks, p.Spec.Replicas = nil, ptr.To[int32](5)
		p.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	})
	quota := func(name, hard, used string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ResourceQuotaSpec{Scopes: scopes},
			Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{"requests.cpu": resource.MustParse(hard), "pods": resource.MustParse("50"), "secrets": resource.MustParse("0")},
				Used: corev1.ResourceList{"requests.cpu": resource.MustParse(used)},
			},
		}
	}
	updated := func(replicas int) []runtime.Object { // the number of existing replicas of an earlier revision
		old := web(func(p *v1.Pod2) { p.Spec.Networks, p.Spec.Replicas = nil, ptr.To[int32](5) })
		objects := []runtime.Object{old, revisionOf(old, 1)}
		for i := range replicas {
			objects = append(objects, replica(old, i))
		}
		return objects
	}
	for _, tt := range []struct {
		name    string
		refusal error
		objects []runtime.Object
		want    string
	}{
		{"no quota", nil, nil, "web-0 would be created\n"},
		{"room for all", nil, []runtime.Object{quota("compute", "1", "200m")},
			"web-0 would be created\n  quota compute has room for 5 of the 5 replicas to be created (requests.cpu: 800m left, 100m each)\n"},
		{"room for some", nil, []runtime.Object{quota("compute", "500m", "180m"), quota("night", "1", "0", corev1.ResourceQuotaScopeBestEffort)},
			"web-0 would be created\n  quota compute has room for 3 of the 5 replicas to be created (requests.cpu: 320m left, 100m each)\n" +
				"  quota night has scopes and is not checked\n"},
		{"Pod Security", forbidden(`violates PodSecurity "restricted:latest"`), nil,
			"web-0 would be refused: pods \"web-0\" is forbidden: violates PodSecurity \"restricted:latest\"\n"},
		{"no right", forbidden(`User "bob" cannot create resource "pods"`), nil,
			"web-0 was not tried, because you may not create pods: pods \"web-0\" is forbidden: User \"bob\" cannot create resource \"pods\"\n"},
		{"an update", nil, updated(1),
			"web-1 would be created\n"},
		{"an update in a full quota", forbidden("exceeded quota: compute"), updated(1),
			"web-1 would be refused: pods \"web-0\" is forbidden: exceeded quota: compute\n"},
		{"an update of all in a full quota", forbidden("exceeded quota: compute"), updated(5),
			"web-0 exceeds a quota while the existing pod counts; the controller deletes that pod first: pods \"web-0\" is forbidden: exceeded quota: compute\n"},
		{"an update that is refused", forbidden("no such account"), updated(5), "web-0 would be refused: pods \"web-0\" is forbidden: no such account\n"},
		{"an update of all", apierrors.NewAlreadyExists(pods, "web-0"), updated(5), "web-0 would be accepted as the replacement of the existing pod\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.objects...)
			w.dryRuns("pod2s", after)
			w.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create, ok := action.(clienttesting.CreateActionImpl)
				if !ok || len(create.CreateOptions.DryRun) == 0 {
					t.Errorf("a creation is not a dry run: %v", action)
				}
				pod, _ := create.Object.(*corev1.Pod)
				if len(pod.OwnerReferences) > 0 {
					t.Errorf("the pod has the owners %v", pod.OwnerReferences)
				}
				return true, pod, tt.refusal
			})
			got := w.run("plan", "-f", file)
			_, got, _ = strings.Cut(got, "The first pod, in a server dry run with your rights and not the controller's:\n  ")
			requireText(t, strings.TrimSuffix(got, "! ignored: Service/web\n"), tt.want)
		})
	}
}
